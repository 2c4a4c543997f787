/* random_fourier.c - Fourier features: sines and cosines of coordinates in random directions.
 *
 *     angle[j] = 2 pi * sum over k of x[k] * matrix[k][j]         j = 0 .. m - 1
 *     sin(angle[0 .. m-1]), cos(angle[0 .. m-1])                  (cosines first with flip_sin_to_cos)
 *
 * x is one of
 *     coords              as they are (Tancik et al. 2020, arXiv:2006.10739; the package rff has cosines first)
 *     timesteps           ln t, or t with log=false (Song et al. 2021, arXiv:2011.13456, NCSN++; diffusers,
 *                         GaussianFourierProjection, whose matrix is `weight`)
 *     height, width       every pixel's centre ((column + 1/2) / width, (row + 1/2) / height), taken from 0 .. 1 to -1 .. 1
 *                         (Kirillov et al. 2023, arXiv:2304.02643; segment-anything, PositionEmbeddingRandom)
 *     points, image_size  (x / width, y / height), likewise
 * matrix[k][j] = sigma (or scale) * z[k m + j], z standard normal, stream 0 of Philox4x32-10 with key `seed`, by Box and
 * Muller (core/random.h): the numbers of no other library, so a matrix that a model was trained with has to be given.
 * Without randomness, of coords alone: mode=basic has the angles 2 pi x[k]; mode=positional has, for each k in turn, the
 * angles 2 pi sigma^(j / m) x[k].
 * compute_dtype=float32 rounds where the peer of each source does. It is what a grid and points have when the request does
 * not say: segment-anything's models were trained on those angles, whose last bits are up to 2e-6 from the exact ones.
 * diffusers' set_W_to_weight says under which name a model keeps the matrix; it changes no number and is no parameter. */
#include "core/elementary.h"
#include "core/random.h"
#include "core/store.h"
#include "sequence/features.h"
#include "sequence/sines.h"

#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_random_fourier;

/* ---- rows ---- */

enum { GAUSSIAN, BASIC, POSITIONAL };
static const char *const modes[] = { "gaussian", "basic", "positional", NULL };

enum { MAX_FEATURES = 1 << 20, MAX_SIDE = 1 << 24 };

typedef struct random_fourier {
    posenc_given given;
    int mode;
    posenc_tensor coords;
    posenc_reals timesteps;
    int64_t height, width;
    posenc_tensor points;
    posenc_reals image_size;
    posenc_tensor matrix, weight;
    int64_t m, num_pos_feats, embedding_size;
    double sigma, scale;
    int64_t seed;
    bool log, flip_sin_to_cos;
    int compute_dtype;
} random_fourier;

static const posenc_param rows[] = {
    { PE_ENUM(random_fourier, mode), .flags = PE_SELECTOR, .names = modes, .def = GAUSSIAN,
      .doc = "gaussian: a matrix, given or drawn; basic: 2 pi x; positional: 2 pi sigma^(j/m) x (basic, positional: of "
             "coords)" },
    { PE_TENSOR(random_fourier, coords), .flags = PE_OPTIONAL,
      .doc = "points of any dimension, [..., in], used as they are" },
    { PE_REALS(random_fourier, timesteps), .flags = PE_OPTIONAL, .min = -PE_FEATURES_LARGEST, .max = PE_FEATURES_LARGEST,
      .when = PE_ON(GAUSSIAN), .doc = "noise levels or times of NCSN++; over 0 unless log=false" },
    { PE_INT(random_fourier, height), .flags = PE_OPTIONAL, .min = 1, .max = MAX_SIDE, .when = PE_ON(GAUSSIAN),
      .doc = "rows of a grid of pixels, with width" },
    { PE_INT(random_fourier, width), .flags = PE_OPTIONAL, .min = 1, .max = MAX_SIDE, .when = PE_ON(GAUSSIAN),
      .doc = "columns of a grid of pixels, with height" },
    { PE_TENSOR(random_fourier, points), .flags = PE_OPTIONAL, .when = PE_ON(GAUSSIAN),
      .doc = "pixels of an image, [..., 2]: x, y; with image_size" },
    { PE_REALS(random_fourier, image_size), .flags = PE_OPTIONAL, .min = 1, .max = MAX_SIDE, .when = PE_ON(GAUSSIAN),
      .doc = "height and width of the image that points lie in" },
    { PE_TENSOR(random_fourier, matrix), .flags = PE_OPTIONAL, .when = PE_ON(GAUSSIAN),
      .doc = "[in, m], instead of drawing one; it is B transposed where a peer has B [m, in] (rff). With timesteps it is "
             "called weight" },
    { PE_TENSOR(random_fourier, weight), .flags = PE_OPTIONAL, .when = PE_ON(GAUSSIAN),
      .doc = "[embedding_size], with timesteps: the matrix of one row" },
    { PE_INT(random_fourier, m), .flags = PE_OPTIONAL, .min = 1, .max = MAX_FEATURES,
      .when = PE_ON(GAUSSIAN) | PE_ON(POSITIONAL), .doc = "number of frequencies, with coords" },
    { PE_INT(random_fourier, num_pos_feats), .flags = PE_OPTIONAL, .min = 1, .max = MAX_FEATURES, .when = PE_ON(GAUSSIAN),
      .doc = "number of frequencies, with a grid or points" },
    { PE_INT(random_fourier, embedding_size), .flags = PE_OPTIONAL, .min = 1, .max = MAX_FEATURES, .when = PE_ON(GAUSSIAN),
      .doc = "number of frequencies, with timesteps" },
    { PE_REAL(random_fourier, sigma), .flags = PE_OPTIONAL, .min = 1e-30, .max = 1e30,
      .when = PE_ON(GAUSSIAN) | PE_ON(POSITIONAL),
      .doc = "with coords: standard deviation of the drawn matrix; positional: the ratio of the frequencies' ladder" },
    { PE_REAL(random_fourier, scale), .flags = PE_OPTIONAL, .min = 1e-30, .max = 1e30, .when = PE_ON(GAUSSIAN),
      .doc = "standard deviation of the drawn matrix: 16 with timesteps (NCSN++), 1 with a grid or points when absent" },
    { PE_INT(random_fourier, seed), .flags = PE_OPTIONAL, .max = 0x1p53 - 1, .when = PE_ON(GAUSSIAN),
      .doc = "key of Philox4x32-10, which draws the matrix; required where no matrix is given" },
    { PE_BOOL(random_fourier, log), .flags = PE_OPTIONAL, .when = PE_ON(GAUSSIAN),
      .doc = "with timesteps: of ln t (true, also when absent) or of t itself" },
    { PE_BOOL(random_fourier, flip_sin_to_cos),
      .doc = "cosines first: rff has them first, segment-anything and NCSN++ sines" },
    { PE_ENUM(random_fourier, compute_dtype), .flags = PE_DERIVED, .names = pe_compute_dtypes,
      .doc = "float64: exact angles; float32: coordinates, products, sums and angles are each rounded to float32, as rff, "
             "diffusers and segment-anything do; when absent, float32 for a grid and points and float64 otherwise" },
};

static const posenc_output outputs[] = {
    { "embedding", "[..., 2m]",
      "[timesteps, 2m], or the axes of coords or points and 2m, or [2m, height, width]; m is `in` in mode=basic and in * m "
      "in mode=positional",
      NULL },
    { "matrix", "[in, m]", "the drawn matrix; given back as `matrix` it gives the same result", "float64" },
    { "weight", "[embedding_size]", "the drawn matrix, with timesteps", "float64" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_random_fourier.table, name) - rows); }

/* ---- what the parameters mean ---- */

typedef enum source { NO_SOURCE, COORDS, TIMESTEPS, GRID, POINTS } source;

static source source_of(const posenc_request *r)
{
    return pe_given(r, "coords")                           ? COORDS
           : pe_given(r, "timesteps")                      ? TIMESTEPS
           : pe_given(r, "height") || pe_given(r, "width") ? GRID
           : pe_given(r, "points")                         ? POINTS
                                                           : NO_SOURCE;
}

static int64_t last_axis(const posenc_tensor *t) { return t->shape[t->rank - 1]; }

/* Coordinates of a point. */
static int64_t inputs(const posenc_request *r)
{
    const random_fourier *p = r->params;
    source s = source_of(r);
    return s == COORDS ? last_axis(&p->coords) : s == TIMESTEPS ? 1 : 2;
}

static const char *matrix_name(source s) { return s == TIMESTEPS ? "weight" : "matrix"; }
static const char *size_name(source s) { return s == TIMESTEPS ? "embedding_size" : s == COORDS ? "m" : "num_pos_feats"; }
static const char *sigma_name(source s) { return s == COORDS ? "sigma" : "scale"; }

static const posenc_tensor *given_matrix(const posenc_request *r)
{
    const random_fourier *p = r->params;
    return pe_given(r, "matrix") ? &p->matrix : pe_given(r, "weight") ? &p->weight : NULL;
}

/* Columns of the matrix; frequencies of one coordinate in mode=positional. */
static int64_t features(const posenc_request *r)
{
    const random_fourier *p = r->params;
    const posenc_tensor *t = given_matrix(r);
    const source s = source_of(r);
    return t                  ? last_axis(t)
           : p->mode == BASIC ? 1
           : s == TIMESTEPS   ? p->embedding_size
           : s == COORDS      ? p->m
                              : p->num_pos_feats;
}

/* ---- check ---- */

static void missing(const char *name, const char *why, posenc_error *err)
{
    posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", name, "absent", "a value, it is required %s", why);
}

/* A row that belongs to another source of x. */
static void belongs(const posenc_request *r, const char *name, bool is, const char *to, posenc_error *err)
{
    if (pe_given(r, name) && !is)
        pe_not_applicable(err, name, "given", "absent: it goes with %s", to);
}

static void check_source(const posenc_request *r, source s, posenc_error *err)
{
    const random_fourier *p = r->params;
    static const char one[] = "one of coords, timesteps, height and width, points and image_size";
    const int n = pe_given(r, "coords") + pe_given(r, "timesteps") + pe_given(r, "points") +
                  (pe_given(r, "height") || pe_given(r, "width"));
    if (!n) {
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "coords", "absent", "a value, it is required: %s",
                    p->mode == GAUSSIAN ? one : "coords, with this mode");
        return;
    }
    if (n > 1)
        pe_not_applicable(err,
                          s == COORDS && pe_given(r, "timesteps") ? "timesteps"
                          : pe_given(r, "points")                 ? "points"
                                                                  : "height",
                          "given with another source", "%s", one);
    if (s == GRID && !pe_given(r, "height"))
        missing("height", "beside width", err);
    if (s == GRID && !pe_given(r, "width"))
        missing("width", "beside height", err);
    belongs(r, "image_size", s == POINTS, "points", err);
    if (s == POINTS && !pe_given(r, "image_size"))
        missing("image_size", "beside points", err);
    if (s == POINTS && pe_given(r, "image_size"))
        pe_reals_two("image_size", &p->image_size, err);

    const posenc_tensor *t = s == COORDS ? &p->coords : s == POINTS ? &p->points : NULL;
    if (!t)
        return;
    if (t->rank == 0 || t->shape[t->rank - 1] == 0 || (s == POINTS && last_axis(t) != 2))
        pe_tensor_shaped(t, -1, NULL, s == POINTS ? "[..., 2]" : "[..., in], in over 0", err);
    else
        pe_tensor_within(t, -PE_FEATURES_LARGEST, PE_FEATURES_LARGEST, "at most 1e100 in magnitude", err);
}

/* The matrix, given or to be drawn. */
static void check_matrix(posenc_request *r, source s, posenc_error *err)
{
    random_fourier *p = r->params;
    const posenc_tensor *t = given_matrix(r);
    const char *size = size_name(s), *sigma = sigma_name(s);
    belongs(r, "matrix", s != TIMESTEPS, "coords, a grid or points; with timesteps it is called weight", err);
    belongs(r, "weight", s == TIMESTEPS, "timesteps; with another source it is called matrix", err);
    belongs(r, "m", s == COORDS, "coords", err);
    belongs(r, "num_pos_feats", s == GRID || s == POINTS, "a grid or points", err);
    belongs(r, "embedding_size", s == TIMESTEPS, "timesteps", err);
    belongs(r, "sigma", s == COORDS, "coords; otherwise it is called scale", err);
    belongs(r, "scale", s != COORDS, "timesteps, a grid or points; with coords it is called sigma", err);
    belongs(r, "log", s == TIMESTEPS, "timesteps", err);
    if (err->n)
        return;
    if (!t) {
        if (!pe_given(r, size))
            missing(size, "where no matrix is given", err);
        if (!pe_given(r, "seed"))
            missing("seed", "where no matrix is given", err);
        if (!pe_given(r, sigma) && s == COORDS)
            missing(sigma, "where no matrix is given", err);
        else if (!pe_given(r, sigma))
            p->scale = s == TIMESTEPS ? 16 : 1;
        if (s != COORDS)
            p->given |= bit("scale");
        return;
    }
    const int64_t want[2] = { inputs(r), pe_given(r, size) ? s == TIMESTEPS ? p->embedding_size
                                                             : s == COORDS  ? p->m
                                                                            : p->num_pos_feats
                                                           : -1 };
    const bool row = s == TIMESTEPS;
    if (pe_tensor_shaped(t, row ? 1 : 2, row ? want + 1 : want,
                         posenc_text(row           ? "[%s]"
                                     : s == COORDS ? "[in, %s], in as in coords"
                                                   : "[2, %s]",
                                     size)
                             .s,
                         err) &&
        last_axis(t) == 0)
        pe_invalid(err, t->name, posenc_text("no frequency"), "at least one");
    pe_tensor_within(t, -PE_FEATURES_LARGEST, PE_FEATURES_LARGEST, "at most 1e100 in magnitude", err);
    if (pe_given(r, sigma))
        pe_not_applicable(err, sigma, "given with a matrix", "absent: it is for drawing");
    if (pe_given(r, "seed"))
        pe_not_applicable(err, "seed", "given with a matrix", "absent: it is for drawing");
    p->given &= ~bit(size); /* the matrix says it: either spelling is the same request */
}

/* No float32 on the way overflows: products of two of these, 2 pi, and a sum of up to 10^7 of them. */
static void check_float32(const posenc_request *r, source s, posenc_error *err)
{
    static const char words[] = "at most 1e15 in magnitude with compute_dtype=float32";
    const random_fourier *p = r->params;
    const posenc_tensor *t = given_matrix(r);
    const double sigma = s == COORDS ? p->sigma : p->scale;
    if (s == COORDS)
        pe_tensor_within(&p->coords, -1e15, 1e15, words, err);
    if (s == POINTS)
        pe_tensor_within(&p->points, -1e15, 1e15, words, err);
    if (t)
        pe_tensor_within(t, -1e15, 1e15, words, err);
    if (!t && p->mode != BASIC && !(sigma >= 1e-15 && sigma <= 1e15))
        pe_invalid(err, sigma_name(s), posenc_text("%.17g", sigma), "1e-15 .. 1e15 with compute_dtype=float32");
    for (size_t i = 0; i < p->timesteps.n && s == TIMESTEPS; i++)
        if (fabs(p->timesteps.v[i]) > 1e15 || (p->timesteps.v[i] != 0 && fabs(p->timesteps.v[i]) < 1e-37)) {
            pe_invalid(err, posenc_text("timesteps[%zu]", i).s, posenc_text("%.17g", p->timesteps.v[i]),
                       "0, or 1e-37 .. 1e15 in magnitude, with compute_dtype=float32");
            return;
        }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    random_fourier *p = r->params;
    const source s = source_of(r);
    check_source(r, s, err);
    if (err->n)
        return err->status;
    if (p->mode == GAUSSIAN)
        check_matrix(r, s, err);
    if (p->mode == POSITIONAL && !pe_given(r, "m"))
        missing("m", "with mode=positional", err);
    if (p->mode == POSITIONAL && !pe_given(r, "sigma"))
        missing("sigma", "with mode=positional", err);
    if (!pe_given(r, "compute_dtype"))
        p->compute_dtype = s == GRID || s == POINTS ? PE_COMPUTE_FLOAT32 : PE_COMPUTE_FLOAT64;
    if (p->compute_dtype == PE_COMPUTE_FLOAT32 && !err->n)
        check_float32(r, s, err);
    if (s == TIMESTEPS && !pe_given(r, "log")) {
        p->log = true;
        p->given |= bit("log");
    }
    for (size_t i = 0; i < p->timesteps.n && s == TIMESTEPS && p->log; i++)
        if (!(p->timesteps.v[i] > 0))
            return pe_invalid(err, posenc_text("timesteps[%zu]", i).s, posenc_text("%.17g", p->timesteps.v[i]),
                              "over 0, or log=false");
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const random_fourier *p = r->params;
    const source s = source_of(r);
    const int64_t in = inputs(r), m = features(r);
    const posenc_tensor *t = s == COORDS ? &p->coords : &p->points;
    int64_t size[PE_MAX_RANK], width;
    int rank = 1;
    posenc_status st;
    if (!posenc_mul_size(2 * m, p->mode == GAUSSIAN ? 1 : in, &width))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "embedding", "over 2^63 columns", "fewer frequencies");
    if (s == GRID) {
        st = pe_output(out, "embedding", (posenc_dtype)r->common.dtype, 3, (int64_t[]){ width, p->height, p->width }, err);
    } else {
        if (s == TIMESTEPS)
            size[0] = (int64_t)p->timesteps.n;
        else
            memcpy(size, t->shape, (size_t)(rank = t->rank - 1) * sizeof *size);
        size[rank] = width;
        st = pe_output(out, "embedding", (posenc_dtype)r->common.dtype, rank + 1, size, err);
    }
    if (st || given_matrix(r) || p->mode != GAUSSIAN)
        return st;
    return s == TIMESTEPS ? pe_output(out, "weight", PE_float64, 1, &m, err)
                          : pe_output(out, "matrix", PE_float64, 2, (int64_t[]){ in, m }, err);
}

enum { BLOCK = 64 };

/* Whether every element has at most 26 bits, so that a product of two is a float64. */
static bool few_bits(const posenc_tensor *t)
{
    return t && t->dtype != PE_float64 && t->dtype != PE_int32 && t->dtype != PE_int64;
}

/* Whether the sums of a row are made of float64 columns: of coordinates as they are, for results of float32 or less. */
static bool by_turns(const posenc_request *r)
{
    const random_fourier *p = r->params;
    return p->mode == GAUSSIAN && source_of(r) == COORDS && p->compute_dtype != PE_COMPUTE_FLOAT32 &&
           r->common.dtype != PE_float64;
}

static bool exact_products(const posenc_request *r)
{
    return few_bits(&((const random_fourier *)r->params)->coords) && few_bits(given_matrix(r));
}

static uint64_t scratch(const posenc_request *r)
{
    const random_fourier *p = r->params;
    const int64_t in = inputs(r), m = features(r);
    const posenc_tensor *t = given_matrix(r);
    const int64_t columns = p->mode == GAUSSIAN ? m : in * m;
    return (uint64_t)(t ? posenc_tensor_count(t) : 0) * sizeof(double) + /* matrix as float64 */
           (uint64_t)(p->mode == POSITIONAL ? m : 0) * sizeof(pe_dd) +   /* ladder */
           (uint64_t)in * sizeof(pe_dd) +                                /* x */
           (by_turns(r) ? pe_turns_size((size_t)in, (size_t)m, exact_products(r)) : 0) +
           (uint64_t)(source_of(r) == GRID ? 0 : 2 * columns) * sizeof(double); /* a row of the result */
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const random_fourier *p = r->params;
    const double in = (double)inputs(r), m = (double)features(r);
    const double points = (double)posenc_tensor_count(&r->shape.tensor[0]) / (2 * m * (p->mode == GAUSSIAN ? 1 : in));
    const double angles = points * m * (p->mode == GAUSSIAN ? 1 : in);
    const double product = p->mode == GAUSSIAN ? 6 * in : 0, matrix = p->mode != GAUSSIAN ? 0 : given_matrix(r) ? 2 : 500;
    const double each = p->compute_dtype == PE_COMPUTE_FLOAT32 ? 20 + product / 4 : by_turns(r) ? 2 + 3 * in : 30 + product;
    *out = (posenc_cost){ .ns = 20e3 + angles * each + points * (source_of(r) == TIMESTEPS ? 600 : 30) + matrix * in * m +
                                (p->mode == POSITIONAL ? 300 * m : 0),
                          .scratch = scratch(r) };
}

/* ---- compute ---- */

typedef struct work {
    const random_fourier *p;
    source s;
    bool single; /* compute_dtype=float32 */
    size_t in, m;
    const double *matrix; /* (in, m) */
    pe_dd *ladder;        /* (m) 2 pi sigma^(j / m) */
    pe_dd *x;             /* (in) */
    double *row;          /* a row of the result; not of a grid */
    pe_pace pace;
} work;

/* What the float32 peers multiply by. */
static const float two_pi32 = 0x1.921fb6p+2f, pi32 = 0x1.921fb6p+1f;

static pe_dd single(float v) { return (pe_dd){ (double)v, 0 }; }

/* 2 at / n - 1: a place among n pixels, taken to -1 .. 1. */
static pe_dd pixel(const work *w, double at, double n)
{
    const float part = (float)at / (float)n;
    return w->single ? single(2 * part - 1) : pe_dd_div(pe_two_sum(2 * at, -n), (pe_dd){ n, 0 });
}

static pe_dd coordinate(const work *w, double v)
{
    const float x = (float)v;
    return !w->single ? (pe_dd){ v, 0 } : single(w->p->mode == GAUSSIAN ? two_pi32 * x : x);
}

static pe_dd timestep(const work *w, double t)
{
    const pe_dd x = w->single ? single((float)t) : (pe_dd){ t, 0 };
    if (!w->p->log)
        return x;
    return w->single ? single((float)pe_log(x.hi)) : pe_dd_log(x);
}

/* w->x = point number i, as the matrix meets it. */
static void point(work *w, int64_t i)
{
    const random_fourier *p = w->p;
    switch (w->s) {
    case TIMESTEPS: w->x[0] = timestep(w, p->timesteps.v[i]); break;
    case POINTS:
        for (int k = 0; k < 2; k++)
            w->x[k] = pixel(w, posenc_tensor_get(&p->points, 2 * i + k), p->image_size.v[1 - k]);
        break;
    default:
        for (size_t k = 0; k < w->in; k++)
            w->x[k] = coordinate(w, posenc_tensor_get(&p->coords, i * (int64_t)w->in + (int64_t)k));
        break;
    }
}

/* Sines and cosines of n angles into two places, in their order. */
static void waves(const work *w, const pe_dd *angle, size_t n, double *first, double *second)
{
    const bool flip = w->p->flip_sin_to_cos;
    pe_sincos(angle, n, flip ? second : first, flip ? first : second);
    for (size_t j = 0; j < n && w->single; j++) {
        first[j] = pe_single(first[j]);
        second[j] = pe_single(second[j]);
    }
}

/* The product of x and the matrix, as float32 peers end it: coords were multiplied by 2 pi before. */
static pe_dd turned32(const work *w, float sum)
{
    return single(w->s == COORDS ? sum : w->s == TIMESTEPS ? sum * 2 * pi32 : two_pi32 * sum);
}

/* Angles of the columns first .. first + n - 1, which in mode=positional belong to coordinate k. */
static void angles(const work *w, size_t k, size_t first, size_t n, pe_dd *angle)
{
    const int mode = w->p->mode;
    if (mode == GAUSSIAN && !w->single)
        pe_features_dot(w->x, w->in, w->matrix, w->m, first, n, angle);
    for (size_t j = 0; j < n; j++) {
        const pe_dd x = mode == BASIC ? w->x[first + j] : w->x[k],
                    by = mode == POSITIONAL ? w->ladder[first + j] : pe_two_pi;
        if (mode == GAUSSIAN && w->single) {
            float sum = (float)w->x[0].hi * (float)w->matrix[first + j];
            for (size_t i = 1; i < w->in; i++)
                sum += (float)w->x[i].hi * (float)w->matrix[i * w->m + first + j];
            angle[j] = turned32(w, sum);
        } else if (w->single) {
            angle[j] = single((float)by.hi * (float)x.hi);
        } else {
            angle[j] = pe_dd_mul(mode == GAUSSIAN ? angle[j] : x, by);
        }
    }
}

/* w->row = the features of w->x. */
static posenc_status make_row(work *w)
{
    const bool positional = w->p->mode == POSITIONAL;
    const size_t columns = w->p->mode == BASIC ? w->in : w->m, groups = positional ? w->in : 1;
    pe_dd angle[BLOCK];
    posenc_status st = PE_OK;
    for (size_t k = 0; k < groups; k++)
        for (size_t first = 0; first < columns; first += BLOCK) {
            const size_t n = columns - first < BLOCK ? columns - first : BLOCK;
            double *to = w->row + 2 * k * columns + first;
            angles(w, k, first, n, angle);
            waves(w, angle, n, to, to + columns);
            if ((st = pe_pace_add(&w->pace, (int64_t)(n * (35 + (w->p->mode == GAUSSIAN ? 8 * w->in : 0))))))
                return st;
        }
    return pe_pace_add(&w->pace, 1000);
}

static posenc_status make_rows(work *w, const posenc_tensor *dst)
{
    const size_t width = (size_t)dst->shape[dst->rank - 1], size = width * posenc_dtype_size(dst->dtype);
    const int64_t n = posenc_tensor_count(dst) / (int64_t)width;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        point(w, i);
        if (!(st = make_row(w)))
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)i * size, w->row, width);
    }
    return st;
}

/* The same of coordinates as they are, by turns. */
static posenc_status make_turned_rows(work *w, const posenc_tensor *dst, bool exact, double *storage)
{
    const random_fourier *p = w->p;
    const size_t size = 2 * w->m * posenc_dtype_size(dst->dtype), chunk = 1 + 65536 / w->in;
    const pe_turns turns = pe_turns_begin(w->matrix, w->in, w->m, exact, storage);
    const int64_t n = posenc_tensor_count(&p->coords) / (int64_t)w->in;
    double *x = (double *)w->x, *sine = w->row, *cosine = w->row + w->m;
    if (p->flip_sin_to_cos) {
        sine = w->row + w->m;
        cosine = w->row;
    }
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        pe_tensor_read(&p->coords, i * (int64_t)w->in, w->in, x);
        for (size_t first = 0; first < w->m && !st; first += chunk) {
            const size_t some = w->m - first < chunk ? w->m - first : chunk;
            pe_turns_at(&turns, x, first, some, sine + first, cosine + first);
            st = pe_pace_add(&w->pace, (int64_t)(some * (2 + 3 * w->in)) + 60);
        }
        if (!st)
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)i * size, w->row, 2 * w->m);
    }
    return st;
}

static pe_dd pixel_angle(const work *w, pe_dd x, pe_dd y, size_t j)
{
    const double bx = w->matrix[j], by = w->matrix[w->m + j];
    if (w->single) {
        const float right = (float)x.hi * (float)bx, down = (float)y.hi * (float)by;
        return turned32(w, right + down);
    }
    return pe_dd_mul(pe_dd_add(pe_dd_times(x, bx), pe_dd_times(y, by)), pe_two_pi);
}

/* One row of pixels of channels j and m + j at a time. */
static posenc_status make_grid(work *w, const posenc_tensor *dst)
{
    const int64_t height = dst->shape[1], width = dst->shape[2];
    const size_t line = (size_t)width * posenc_dtype_size(dst->dtype), plane = line * (size_t)height;
    double sine[BLOCK], cosine[BLOCK];
    pe_dd angle[BLOCK];
    posenc_status st;
    for (size_t j = 0; j < w->m; j++)
        for (int64_t y = 0; y < height; y++) {
            const pe_dd down = pixel(w, (double)y + 0.5, (double)height);
            char *first = (char *)dst->data + j * plane + (size_t)y * line, *second = first + w->m * plane;
            for (int64_t x = 0; x < width; x += BLOCK) {
                const size_t n = width - x < BLOCK ? (size_t)(width - x) : BLOCK;
                const size_t at = (size_t)x * posenc_dtype_size(dst->dtype);
                for (size_t i = 0; i < n; i++)
                    angle[i] = pixel_angle(w, pixel(w, (double)x + (double)i + 0.5, (double)width), down, j);
                waves(w, angle, n, sine, cosine);
                posenc_convert(dst->dtype, first + at, sine, n);
                posenc_convert(dst->dtype, second + at, cosine, n);
                if ((st = pe_pace_add(&w->pace, (int64_t)n * 60 + 40)))
                    return st;
            }
        }
    return PE_OK;
}

/* 2 pi sigma^(j / m), each step rounded to float32. */
static posenc_status ladder32(work *w)
{
    posenc_status st = PE_OK;
    for (size_t j = 0; j < w->m && !st; j++) {
        const float exponent = (float)j / (float)w->m, power = (float)pe_pow(pe_single(w->p->sigma), (double)exponent);
        w->ladder[j] = single(two_pi32 * power);
        st = pe_pace_add(&w->pace, 1000);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const random_fourier *p = r->params;
    const posenc_tensor *t = given_matrix(r), *dst = pe_tensor(out, "embedding");
    work w = { .p = p, .s = source_of(r), .in = (size_t)inputs(r), .m = (size_t)features(r), .pace = { .ctx = ctx } };
    char *memory = malloc(scratch(r));
    posenc_status st = PE_OK;
    if (!memory)
        return pe_no_memory("memory", err);
    w.single = p->compute_dtype == PE_COMPUTE_FLOAT32;
    w.x = (pe_dd *)memory;
    w.ladder = w.x + w.in;
    double *matrix = (double *)(w.ladder + (p->mode == POSITIONAL ? w.m : 0));
    w.row = matrix + (t ? w.in * w.m : 0);
    if (p->mode == POSITIONAL) {
        const pe_ladder l = { .gain = pe_two_pi, .top = 1, .bottom = p->sigma, .steps = { (double)w.m, 0 } };
        st = w.single ? ladder32(&w) : pe_frequencies(&l, w.m, w.ladder, ctx);
    } else if (t) {
        st = pe_tensor_doubles(t, matrix, &w.pace);
        w.matrix = matrix;
    } else if (p->mode == GAUSSIAN) {
        double *drawn = pe_tensor(out, matrix_name(w.s))->data;
        st = pe_features_draw((uint64_t)p->seed, 0, w.s == COORDS ? p->sigma : p->scale, w.in * w.m, drawn, &w.pace);
        w.matrix = drawn;
    }
    if (!st)
        st = w.s == GRID   ? make_grid(&w, dst)
             : by_turns(r) ? make_turned_rows(&w, dst, exact_products(r), w.row + 2 * w.m)
                           : make_rows(&w, dst);
    free(memory);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_random_fourier = {
    .name = "random_fourier",
    .family = "absolute",
    .title = "sine and cosine in random directions",
    .source =
        "Tancik et al. 2020, Fourier features let networks learn high frequency functions, arXiv:2006.10739; Song et al. "
        "2021, NCSN++, arXiv:2011.13456; Kirillov et al. 2023, Segment anything, arXiv:2304.02643",
    .formula = "angle[j] = 2 pi * sum over k of x[k] * matrix[k][j]; sin(angle) for all j, then cos(angle)\n"
               "x: coords; or ln(timestep); or pixel centres of a grid, or points / image_size, taken to -1 .. 1\n"
               "matrix[k][j] = sigma (or scale) * z[k m + j], z standard normal by " PE_RANDOM_NAME " with key seed\n"
               "mode=basic: angle = 2 pi x[k]; mode=positional: 2 pi sigma^(j / m) x[k]",
    .example = "coords=[[0.1,0.2],[0.5,0.9],[-1,3]]&m=8&sigma=10&seed=1",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(random_fourier, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
