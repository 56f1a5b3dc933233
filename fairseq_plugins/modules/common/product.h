/* Products of few rows with a matrix on a CPU. They read the matrix once, in the order in which it lies, so they take the
 * time of reading it; a library's products of one to eight rows take two to five times as long.
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

/* y = (base +) x W^T + b, or its ReLU; all threads call it with the same arguments */
static void product(const Linear *linear, const REAL *x, REAL *y, const REAL *base, int relu, int64_t rows) {
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
