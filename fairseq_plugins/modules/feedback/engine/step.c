/* A step of decoding on a CPU for few rows: what `Loop.step` computes, without gradients, in one call.
 *
 * Started one by one, the hundred operations of a step take longer to start than the processor takes to read the weights.
 * `compiled_loop.py` fills the structures below, whose fields it repeats; `modules/common/compiled.py` compiles this file for
 * float and for double.
 *
 * B rows, C width, H heads, D width of a head, R = B * H, S places that one attention sees, N sources of a memory.
 * Matrices are stored row by row.
 */
#include <math.h>

#include "product.h"

typedef struct { const REAL *weight, *bias; double eps; } Norm;                     /* NULL: it has none */
typedef struct {
    REAL *keys, *values;                                                            /* value d of a place at [d] */
    int64_t key_row, key_place, key_dim, value_row, value_place;                    /* strides; key_place or key_dim is 1 */
    int64_t end;                                                                    /* places that are written */
} Source;
typedef struct {
    Norm norm;
    Linear query, out;
    const Source *source;
    const REAL *position, *span, *padding;  /* [D, S], [H, S], [R / beam, S]; or NULL */
    int64_t places, beam;                   /* places: S; 0: all */
    REAL *weights;                          /* [R / beam, beam, S], written */
} Attention;
typedef struct { Attention memory, context; Norm norm; Linear widen, narrow; int64_t has_context; } Layer;
typedef struct { Linear linear; Source **sources; int64_t count, memory; } Writer;
typedef struct {
    const Layer *layers;
    const Writer *writers;
    const REAL *mixing;                                     /* [G, L + 1] */
    REAL *states, *queries, *mixed, *hidden, *memories, *pairs, *scratch; /* states [L + 1, B, C]; scratch [threads, B, C] */
    int64_t rows, width, heads, head_dim, depth, writer_count, memory_count, pre_norm, normalises;
    double eps;                                             /* of the LayerNorm of memories */
    int64_t threads;
} Step;

int omp_get_thread_num(void);

/* y = LayerNorm(x), both [rows, C] */
static void normalise(const Norm *norm, const REAL *x, REAL *y, int64_t rows, int64_t C) {
    for (int64_t row = 0; row < rows; row++, x += C, y += C) {
        Lanes sum = {0}, squares = {0};
        REAL mean = 0, variance = 0;
        int64_t i = 0;
        for (; i + LANES <= C; i += LANES) sum += load(x + i);
        for (int64_t j = i; j < C; j++) mean += x[j];
        mean = (mean + total(sum)) / C;
        for (i = 0; i + LANES <= C; i += LANES) squares += (load(x + i) - mean) * (load(x + i) - mean);
        for (int64_t j = i; j < C; j++) variance += (x[j] - mean) * (x[j] - mean);
        const REAL scale = 1 / sqrt((variance + total(squares)) / C + norm->eps);
        for (i = 0; i < C; i++) {
            y[i] = (x[i] - mean) * scale;
            if (norm->weight) y[i] *= norm->weight[i];
            if (norm->bias) y[i] += norm->bias[i];
        }
    }
}

/* scores[s] += q_d x[d * stride + s], summed over d: four registers of places at a time */
static void add_scores(REAL *scores, const REAL *q, const REAL *x, int64_t stride, int64_t S, int64_t D) {
    int64_t s = 0;
    for (; s + 4 * LANES <= S; s += 4 * LANES) {
        Lanes acc[4];
        for (int k = 0; k < 4; k++) acc[k] = load(scores + s + k * LANES);
        for (int64_t d = 0; d < D; d++)
            for (int k = 0; k < 4; k++) acc[k] += q[d] * load(x + d * stride + s + k * LANES);
        for (int k = 0; k < 4; k++) store(scores + s + k * LANES, acc[k]);
    }
    for (int64_t d = 0; d < D; d++)
        for (int64_t i = s; i < S; i++) scores[i] += q[d] * x[d * stride + i];
}

INLINE REAL dot(const REAL *a, const REAL *b, int64_t n) {
    Lanes acc = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) acc += load(a + i) * load(b + i);
    REAL sum = total(acc);
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* y[d] = the sum over s of w[s] x[s * stride + d] */
static void mix(const REAL *w, const REAL *x, int64_t stride, int64_t S, int64_t D, REAL *y) {
    int64_t d = 0;
    for (; d + 4 * LANES <= D; d += 4 * LANES) {
        Lanes acc[4] = {{0}};
        for (int64_t s = 0; s < S; s++)
            for (int k = 0; k < 4; k++) acc[k] += w[s] * load(x + s * stride + d + k * LANES);
        for (int k = 0; k < 4; k++) store(y + d + k * LANES, acc[k]);
    }
    for (int64_t i = d; i < D; i++) y[i] = 0;
    for (int64_t s = 0; s < S; s++)
        for (int64_t i = d; i < D; i++) y[i] += w[s] * x[s * stride + i];
}

/* Softmax of the scores; with a span the weights are masked and divided by their sum (Sukhbaatar et al., 2019) */
static void weigh(REAL *w, const REAL *span, int64_t S) {
    REAL most = w[0], sum = 0;
    for (int64_t s = 1; s < S; s++) most = w[s] > most ? w[s] : most;
    for (int64_t s = 0; s < S; s++) sum += w[s] = sizeof(REAL) == 4 ? expf(w[s] - most) : exp(w[s] - most);
    for (int64_t s = 0; s < S; s++) w[s] /= sum;
    if (!span) return;
    sum = 1e-8;
    for (int64_t s = 0; s < S; s++) sum += w[s] *= span[s];
    for (int64_t s = 0; s < S; s++) w[s] /= sum;
}

/* One query: row b, head h */
static void attend(const Step *p, const Attention *a, int64_t b, int64_t h) {
    const Source *source = a->source;
    const int64_t D = p->head_dim, S = a->places ? a->places : source->end, first = source->end - S;
    const int64_t row = b / a->beam * p->heads + h, at = (b * p->heads + h) * D;
    const REAL *q = p->queries + at, *keys = source->keys + row * source->key_row + first * source->key_place;
    REAL *w = a->weights + (row * a->beam + b % a->beam) * S;
    if (a->padding) memcpy(w, a->padding + row * S, S * sizeof(REAL));
    else memset(w, 0, S * sizeof(REAL));
    if (a->position) add_scores(w, q, a->position, S, S, D);
    if (source->key_place == 1) add_scores(w, q, keys, source->key_dim, S, D);
    else for (int64_t s = 0; s < S; s++) w[s] += dot(q, keys + s * source->key_place, D);
    weigh(w, a->span ? a->span + h * S : NULL, S);
    mix(w, source->values + row * source->value_row + first * source->value_place, source->value_place, S, D, p->mixed + at);
}

/* Before a sublayer: its input, which with pre-norm is normalised by every thread for itself */
INLINE const REAL *before(const Step *p, const Norm *norm, const REAL *x, REAL *own) {
    if (!p->pre_norm) return x;
    normalise(norm, x, own, p->rows, p->width);
    return own;
}

/* After a sublayer with post-norm */
INLINE void after(const Step *p, const Norm *norm, REAL *y) {
    if (p->pre_norm) return;
#pragma omp for schedule(static)
    for (int64_t b = 0; b < p->rows; b++) normalise(norm, y + b * p->width, y + b * p->width, 1, p->width);
}

static void attention(const Step *p, const Attention *a, const REAL *x, REAL *y, REAL *own) {
    product(&a->query, before(p, &a->norm, x, own), p->queries, NULL, 0, p->rows);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < p->rows * p->heads; i++) attend(p, a, i / p->heads, i % p->heads);
    product(&a->out, p->mixed, y, x, 0, p->rows);
    after(p, &a->norm, y);
}

static void layer(const Step *p, const Layer *l, const REAL *x, REAL *y, REAL *own) {
    attention(p, &l->memory, x, y, own);
    if (l->has_context) attention(p, &l->context, y, y, own);
    product(&l->widen, before(p, &l->norm, y, own), p->hidden, NULL, 1, p->rows);
    product(&l->narrow, p->hidden, y, y, 0, p->rows);
    after(p, &l->norm, y);
}

/* Keys and values of row b [N, 2, H, D] go to the next place of the sources. */
static void append(const Step *p, const Writer *writer, int64_t b) {
    const REAL *pair = p->pairs + b * writer->linear.out;
    for (int64_t n = 0; n < writer->count; n++) {
        const Source *s = writer->sources[n];
        REAL *key = s->keys + b * p->heads * s->key_row + s->end * s->key_place;
        REAL *value = s->values + b * p->heads * s->value_row + s->end * s->value_place;
        for (int64_t h = 0; h < p->heads; h++, key += s->key_row, pair += p->head_dim)
            for (int64_t d = 0; d < p->head_dim; d++) key[d * s->key_dim] = pair[d];
        for (int64_t h = 0; h < p->heads; h++, value += s->value_row, pair += p->head_dim)
            memcpy(value, pair, p->head_dim * sizeof(REAL));
    }
}

/* Equation (1), and the keys and values that it gives */
static void remember(const Step *p, REAL *own) {
    const int64_t size = p->rows * p->width;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < p->memory_count * size; i++) {
        const REAL *mixing = p->mixing + i / size * (p->depth + 1), *state = p->states + i % size;
        REAL sum = 0;
        for (int64_t l = 0; l <= p->depth; l++) sum += mixing[l] * state[l * size];
        p->memories[i] = sum;
    }
    for (int64_t k = 0; k < p->writer_count; k++) {
        const Writer *writer = p->writers + k;
        const REAL *memory = p->memories + writer->memory * size;
        const Norm norm = {NULL, NULL, p->eps};
        if (p->normalises) {
            normalise(&norm, memory, own, p->rows, p->width);
            memory = own;
        }
        product(&writer->linear, memory, p->pairs, NULL, 0, p->rows);
#pragma omp for schedule(static)
        for (int64_t b = 0; b < p->rows; b++) append(p, writer, b);
    }
}

/* The embeddings are in states[0]; the outputs of all layers go to the others. */
void feedback_step(const Step *p) {
    const int64_t size = p->rows * p->width;
#pragma omp parallel num_threads(p->threads)
    {
        REAL *own = p->scratch + omp_get_thread_num() * size;
        for (int64_t l = 0; l < p->depth; l++) layer(p, p->layers + l, p->states + l * size, p->states + (l + 1) * size, own);
        remember(p, own);
    }
}
