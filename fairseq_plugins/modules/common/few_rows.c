/* A linear layer for few rows; `few_rows.py` calls it. */
#include "product.h"

/* y = x W^T + b for the rows of x */
void linear(const Linear *layer, const REAL *x, REAL *y, int64_t rows, int64_t threads, REAL *panels) {
#pragma omp parallel num_threads(threads)
    product(layer, x, y, NULL, 0, rows, panels);
}
