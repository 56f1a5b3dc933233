/* Products of up to some hundred rows with a matrix on a CPU. Those of few rows read the matrix once, in the order in which
 * it lies, so they take the time of reading it; a library's products of one to eight rows take two to five times as long.
 * More rows are put side by side, a row to a place of a register, so that no register is summed up at the end.
 *
 * REAL is float or double. Matrices are stored row by row.
 */
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define BYTES 64
#else
#define BYTES 32
#endif
#define LANES ((int64_t)(BYTES / sizeof(REAL)))
#define PANEL (2 * LANES)
#define INLINE static inline __attribute__((always_inline))
typedef REAL Lanes __attribute__((vector_size(BYTES)));

typedef struct { const REAL *weight, *bias; int64_t in, out; } Linear;              /* [out, in]; bias may be NULL */

INLINE Lanes load(const REAL *x) { Lanes y; memcpy(&y, x, sizeof y); return y; }
INLINE void store(REAL *y, Lanes x) { memcpy(y, &x, sizeof x); }

/* The first n numbers, and zeros */
INLINE Lanes load_first(const REAL *x, int64_t n) {
    Lanes y = {0};
    memcpy(&y, x, n * sizeof(REAL));
    return y;
}

/* Without a branch, whose way no processor could foresee */
INLINE Lanes relu_of(Lanes x) {
    const __typeof__(x < x) kept = ~(x < (Lanes){0});
    return (Lanes)((__typeof__(kept))x & kept);
}

INLINE REAL total(Lanes x) {
    REAL parts[LANES];
    memcpy(parts, &x, sizeof parts);
    for (int64_t n = LANES / 2; n; n /= 2)
        for (int64_t i = 0; i < n; i++) parts[i] += parts[i + n];
    return parts[0];
}

/* acc[o][b] += row o of w times row b of x, of one register */
INLINE void multiply(const int outs, const int rows, const Lanes w[4], const Lanes x[4], Lanes acc[4][4]) {
    for (int b = 0; b < rows; b++)
        for (int o = 0; o < outs; o++) acc[o][b] += w[o] * x[b];
}

/* sums[o][b] = row o of w times row b of x */
INLINE void tile(const int outs, const int rows, const REAL *w, const REAL *x, int64_t in, REAL sums[4][4]) {
    Lanes acc[4][4] = {{{0}}}, row[4], column[4];
    int64_t i = 0;
    for (; i + LANES <= in; i += LANES) {
        for (int o = 0; o < outs; o++) {
            row[o] = load(w + o * in + i);
            __builtin_prefetch(w + (o + outs) * in + i); /* of the next tile */
        }
        for (int b = 0; b < rows; b++) column[b] = load(x + b * in + i);
        multiply(outs, rows, row, column, acc);
    }
    if (i < in) {
        for (int o = 0; o < outs; o++) row[o] = load_first(w + o * in + i, in - i);
        for (int b = 0; b < rows; b++) column[b] = load_first(x + b * in + i, in - i);
        multiply(outs, rows, row, column, acc);
    }
    for (int o = 0; o < outs; o++)
        for (int b = 0; b < rows; b++) sums[o][b] = total(acc[o][b]);
}

/* The outputs o .. o + outs - 1 of a linear layer, for `rows` rows of x [B, in]; y and base [B, out] */
INLINE void outputs(
    const int outs, const int rows, const Linear *linear, int64_t o, const REAL *x, REAL *y, const REAL *base, int relu) {
    REAL sums[4][4];
    tile(outs, rows, linear->weight + o * linear->in, x, linear->in, sums);
    for (int b = 0; b < rows; b++)
        for (int k = 0; k < outs; k++) {
            const int64_t at = b * linear->out + o + k;
            REAL sum = sums[k][b];
            if (linear->bias) sum += linear->bias[o + k];
            if (base) sum += base[at];
            y[at] = relu && sum < 0 ? 0 : sum;
        }
}

INLINE void outputs_of_rows(
    const int outs, const Linear *linear, int64_t o, const REAL *x, REAL *y, const REAL *base, int relu, int64_t rows) {
    for (; rows > 0; rows -= 4, x += 4 * linear->in, y += 4 * linear->out, base = base ? base + 4 * linear->out : base) {
        if (rows >= 4) outputs(outs, 4, linear, o, x, y, base, relu);
        else if (rows == 3) outputs(outs, 3, linear, o, x, y, base, relu);
        else if (rows == 2) outputs(outs, 2, linear, o, x, y, base, relu);
        else outputs(outs, 1, linear, o, x, y, base, relu);
    }
}

/* Up to PANEL rows side by side [in, PANEL], with zeros behind the last of them */
INLINE void pack(const REAL *x, int64_t rows, int64_t in, REAL *panel) {
    for (int64_t i = 0; i < in; i++)
        for (int64_t b = 0; b < PANEL; b++) panel[i * PANEL + b] = b < rows ? x[b * in + i] : 0;
}

/* The outputs o .. o + outs - 1 for a panel of `rows` rows in so many registers; y and base [B, out] */
INLINE void outputs_of_panel(
    const int outs, const int registers, const Linear *linear, int64_t o, const REAL *panel, REAL *y, const REAL *base,
    int relu, int64_t rows) {
    Lanes acc[6][2] = {{{0}}};
    REAL sums[6][PANEL];
    const REAL *w = linear->weight + o * linear->in;
    for (int64_t i = 0; i < linear->in; i++)
        for (int k = 0; k < outs; k++)
            for (int r = 0; r < registers; r++) acc[k][r] += w[k * linear->in + i] * load(panel + i * PANEL + r * LANES);
    for (int k = 0; k < outs; k++)
        for (int r = 0; r < registers; r++) {
            const Lanes sum = acc[k][r] + (linear->bias ? linear->bias[o + k] : 0);
            store(sums[k] + r * LANES, relu ? relu_of(sum) : sum); /* no layer has both a ReLU and a base */
        }
    for (int64_t b = 0; b < rows; b++, y += linear->out, base = base ? base + linear->out : base)
        for (int k = 0; k < outs; k++) y[o + k] = base ? base[o + k] + sums[k][b] : sums[k][b];
}

/* `product` for many rows: a panel of them lies in a cache, beside six rows of the matrix. */
static void product_of_panels(
    const Linear *linear, const REAL *x, REAL *y, const REAL *base, int relu, int64_t rows, REAL *panels) {
    const int64_t in = linear->in, out = linear->out;
#pragma omp for schedule(static)
    for (int64_t b = 0; b < rows; b += PANEL) pack(x + b * in, rows - b, in, panels + b * in);
#pragma omp for schedule(static)
    for (int64_t o = 0; o < out; o += 6)
        for (int64_t b = 0; b < rows; b += PANEL) {
            const REAL *panel = panels + b * in, *below = base ? base + b * out : NULL;
            const int64_t n = rows - b < PANEL ? rows - b : PANEL;
            if (out - o < 6)
                for (int64_t k = o; k < out; k++) outputs_of_panel(1, 2, linear, k, panel, y + b * out, below, relu, n);
            else if (n > LANES) outputs_of_panel(6, 2, linear, o, panel, y + b * out, below, relu, n);
            else outputs_of_panel(6, 1, linear, o, panel, y + b * out, below, relu, n);
        }
}

/* y = (base +) x W^T + b, or its ReLU; all threads call it with the same arguments. panels [B + PANEL, in]: a buffer */
static void product(
    const Linear *linear, const REAL *x, REAL *y, const REAL *base, int relu, int64_t rows, REAL *panels) {
    if (rows >= LANES) {
        product_of_panels(linear, x, y, base, relu, rows, panels);
        return;
    }
    const int outs = rows == 1 ? 4 : 3; /* with four rows at a time, twelve sums and their factors fill 16 registers */
    const int64_t whole = linear->out / outs;
#pragma omp for schedule(static)
    for (int64_t i = 0; i <= whole; i++) {
        if (i == whole)
            for (int64_t o = whole * outs; o < linear->out; o++) outputs_of_rows(1, linear, o, x, y, base, relu, rows);
        else if (rows == 1) outputs(4, 1, linear, 4 * i, x, y, base, relu);
        else outputs_of_rows(3, linear, 3 * i, x, y, base, relu, rows);
    }
}
