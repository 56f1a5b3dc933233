/* A step of decoding on a CPU: what `Loop.step` computes, without gradients, in one call.
 *
 * Started one by one, the hundred operations of a step take longer to start than the processor takes to read the weights.
 * Many rows are cut into groups. Each goes through all layers on one thread, so threads do not wait for one another.
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
    REAL *keys, *values;                                                            /* number d of a place at [d] */
    int64_t key_row, key_place, value_row, value_place;                             /* strides */
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
typedef struct { REAL *queries, *mixed, *hidden, *memories, *pairs, *scratch, *panels; } Buffers; /* for the rows of a group */
typedef struct {
    const Layer *layers;
    const Writer *writers;
    const REAL *mixing;                                     /* [G, L + 1] */
    REAL *states;                                           /* [L + 1, B, C] */
    const Buffers *buffers;                                 /* of the group; in all, of each thread */
    int64_t first, rows, all_rows;                          /* of the group; all_rows: B */
    int64_t width, heads, head_dim, depth, writer_count, memory_count, pre_norm, normalises;
    double eps;                                             /* of the LayerNorm of memories */
    int64_t group, threads;                                 /* rows of a group */
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

/* scores[s] += q_d x[d, s], summed over d: four registers of places at a time */
static void add_position_scores(REAL *scores, const REAL *q, const REAL *x, int64_t S, int64_t D) {
    int64_t s = 0;
    for (; s + 4 * LANES <= S; s += 4 * LANES) {
        Lanes acc[4];
        for (int k = 0; k < 4; k++) acc[k] = load(scores + s + k * LANES);
        for (int64_t d = 0; d < D; d++)
            for (int k = 0; k < 4; k++) acc[k] += q[d] * load(x + d * S + s + k * LANES);
        for (int k = 0; k < 4; k++) store(scores + s + k * LANES, acc[k]);
    }
    for (int64_t d = 0; d < D; d++)
        for (int64_t i = s; i < S; i++) scores[i] += q[d] * x[d * S + i];
}

/* scores[k] += q x[k * stride], for n vectors of D */
INLINE void add_products(const int n, REAL *scores, const REAL *q, const REAL *x, int64_t stride, int64_t D) {
    Lanes acc[4] = {{0}};
    int64_t d = 0;
    for (; d + LANES <= D; d += LANES)
        for (int k = 0; k < n; k++) acc[k] += load(q + d) * load(x + k * stride + d);
    for (int k = 0; k < n; k++) scores[k] += total(acc[k]);
    for (; d < D; d++)
        for (int k = 0; k < n; k++) scores[k] += q[d] * x[k * stride + d];
}

/* The same for S vectors, four at a time */
static void add_key_scores(REAL *scores, const REAL *q, const REAL *x, int64_t stride, int64_t S, int64_t D) {
    int64_t s = 0;
    for (; s + 4 <= S; s += 4) add_products(4, scores + s, q, x + s * stride, stride, D);
    for (; s < S; s++) add_products(1, scores + s, q, x + s * stride, stride, D);
}

/* y = the sum over s of w[s] x[s * stride], vectors of n registers */
INLINE void mix_registers(const int n, const REAL *w, const REAL *x, int64_t stride, int64_t S, REAL *y) {
    Lanes acc[12] = {{0}};
    for (int64_t s = 0; s < S; s++)
        for (int k = 0; k < n; k++) acc[k] += w[s] * load(x + s * stride + k * LANES);
    for (int k = 0; k < n; k++) store(y + k * LANES, acc[k]);
}

/* y[d] = the sum over s of w[s] x[s * stride + d] */
static void mix(const REAL *w, const REAL *x, int64_t stride, int64_t S, int64_t D, REAL *y) {
    int64_t d = 0;
    for (; d + 12 * LANES <= D; d += 12 * LANES) mix_registers(12, w, x + d, stride, S, y + d);
    for (; d + 4 * LANES <= D; d += 4 * LANES) mix_registers(4, w, x + d, stride, S, y + d);
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

/* One query: row `own` of the group, head h */
static void attend(const Step *p, const Attention *a, int64_t own, int64_t h) {
    const Source *source = a->source;
    const int64_t D = p->head_dim, S = a->places ? a->places : source->end, first = source->end - S;
    const int64_t b = p->first + own, row = b / a->beam * p->heads + h, at = (own * p->heads + h) * D;
    const REAL *q = p->buffers->queries + at, *keys = source->keys + row * source->key_row + first * source->key_place;
    REAL *w = a->weights + (row * a->beam + b % a->beam) * S;
    if (a->padding) memcpy(w, a->padding + row * S, S * sizeof(REAL));
    else memset(w, 0, S * sizeof(REAL));
    if (a->position) add_position_scores(w, q, a->position, S, D);
    add_key_scores(w, q, keys, source->key_place, S, D);
    weigh(w, a->span ? a->span + h * S : NULL, S);
    const REAL *values = source->values + row * source->value_row + first * source->value_place;
    mix(w, values, source->value_place, S, D, p->buffers->mixed + at);
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
    product(&a->query, before(p, &a->norm, x, own), p->buffers->queries, NULL, 0, p->rows, p->buffers->panels);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < p->rows * p->heads; i++) attend(p, a, i / p->heads, i % p->heads);
    product(&a->out, p->buffers->mixed, y, x, 0, p->rows, p->buffers->panels);
    after(p, &a->norm, y);
}

static void layer(const Step *p, const Layer *l, const REAL *x, REAL *y, REAL *own) {
    attention(p, &l->memory, x, y, own);
    if (l->has_context) attention(p, &l->context, y, y, own);
    product(&l->widen, before(p, &l->norm, y, own), p->buffers->hidden, NULL, 1, p->rows, p->buffers->panels);
    product(&l->narrow, p->buffers->hidden, y, y, 0, p->rows, p->buffers->panels);
    after(p, &l->norm, y);
}

/* Keys and values of row `own` of the group [N, 2, H, D] go to the next place of the sources. */
static void append(const Step *p, const Writer *writer, int64_t own) {
    const int64_t b = p->first + own;
    const REAL *pair = p->buffers->pairs + own * writer->linear.out;
    for (int64_t n = 0; n < writer->count; n++) {
        const Source *s = writer->sources[n];
        REAL *key = s->keys + b * p->heads * s->key_row + s->end * s->key_place;
        REAL *value = s->values + b * p->heads * s->value_row + s->end * s->value_place;
        for (int64_t h = 0; h < p->heads; h++, key += s->key_row, pair += p->head_dim)
            memcpy(key, pair, p->head_dim * sizeof(REAL));
        for (int64_t h = 0; h < p->heads; h++, value += s->value_row, pair += p->head_dim)
            memcpy(value, pair, p->head_dim * sizeof(REAL));
    }
}

/* Equation (1), and the keys and values that it gives */
static void remember(const Step *p, REAL *own) {
    const int64_t size = p->rows * p->width, of_layer = p->all_rows * p->width;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < p->memory_count * size; i++) {
        const REAL *mixing = p->mixing + i / size * (p->depth + 1), *state = p->states + i % size;
        REAL sum = 0;
        for (int64_t l = 0; l <= p->depth; l++) sum += mixing[l] * state[l * of_layer];
        p->buffers->memories[i] = sum;
    }
    for (int64_t k = 0; k < p->writer_count; k++) {
        const Writer *writer = p->writers + k;
        const REAL *memory = p->buffers->memories + writer->memory * size;
        const Norm norm = {NULL, NULL, p->eps};
        if (p->normalises) {
            normalise(&norm, memory, own, p->rows, p->width);
            memory = own;
        }
        product(&writer->linear, memory, p->buffers->pairs, NULL, 0, p->rows, p->buffers->panels);
#pragma omp for schedule(static)
        for (int64_t b = 0; b < p->rows; b++) append(p, writer, b);
    }
}

/* The threads of a team share the rows of a group. */
static void share(const Step *p) {
    const int64_t of_layer = p->all_rows * p->width;
    REAL *own = p->buffers->scratch + omp_get_thread_num() * p->rows * p->width, *x = p->states;
    for (int64_t l = 0; l < p->depth; l++, x += of_layer) layer(p, p->layers + l, x, x + of_layer, own);
    remember(p, own);
}

/* The embeddings are in states[0]; the outputs of all layers go to the others. */
void feedback_step(const Step *p) {
    if (p->group >= p->rows) {
#pragma omp parallel num_threads(p->threads)
        share(p);
        return;
    }
#pragma omp parallel for num_threads(p->threads) schedule(dynamic)
    for (int64_t first = 0; first < p->rows; first += p->group) {
        Step own = *p;
        own.first = first;
        own.rows = p->rows - first < p->group ? p->rows - first : p->group;
        own.states += first * p->width;
        own.buffers += omp_get_thread_num();
#pragma omp parallel num_threads(1) /* a team of one, which `share` needs */
        share(&own);
    }
}
