/* no_rope_layers.c - which layers of a model use rotary positions and which use none (NoPE).
 *
 *     no_rope_layers[i] = 0 where (i + 1) mod no_rope_layer_interval = 0, else 1
 *
 * The name is that of the configurations, and reads the other way: 1 says that the layer uses rope.
 * Source: transformers, SmolLM3Config and Llama4TextConfig. */
#include "core/params.h"

#include <math.h>

extern const posenc_encoding pe_no_rope_layers;

/* ---- rows ---- */

enum { MAX_LAYERS = 1 << 20 };

typedef struct no_rope_layers {
    posenc_given given;
    int64_t num_hidden_layers, no_rope_layer_interval;
    posenc_reals no_rope_layers;
} no_rope_layers;

static const posenc_param rows[] = {
    { PE_INT(no_rope_layers, num_hidden_layers), .flags = PE_DERIVED, .min = 1, .max = MAX_LAYERS,
      .doc = "layers of the model; when absent, as many as no_rope_layers has" },
    { PE_INT(no_rope_layers, no_rope_layer_interval), .flags = PE_OPTIONAL, .min = 1, .max = MAX_LAYERS,
      .doc = "the last of every so many layers has no rope; 4 when absent; instead of no_rope_layers" },
    { PE_REALS(no_rope_layers, no_rope_layers), .flags = PE_OPTIONAL, .min = 0, .max = 1,
      .doc = "the pattern itself, at least one value a layer: 1 the layer uses rope, 0 it does not" },
};

static const posenc_output outputs[] = {
    { .name = "no_rope_layers",
      .shape = "[num_hidden_layers]",
      .dtype = "int64",
      .doc = "1: the layer uses rope; 0: it has no positions (the name reads the other way, as in the configurations)" },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    no_rope_layers *p = r->params;
    const posenc_reals *l = &p->no_rope_layers;
    const bool listed = pe_given(r, "no_rope_layers"), interval = pe_given(r, "no_rope_layer_interval");
    if (!listed && !pe_given(r, "num_hidden_layers"))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "num_hidden_layers", "absent",
                    "a value, it is required: num_hidden_layers, or no_rope_layers");
    if (listed && interval)
        pe_not_applicable(err, "no_rope_layer_interval", "given with no_rope_layers", "one of the two");
    if (!interval && !listed) {
        p->no_rope_layer_interval = 4;
        pe_mark(r, "no_rope_layer_interval", true);
    }
    if (listed && !pe_given(r, "num_hidden_layers"))
        p->num_hidden_layers = (int64_t)l->n;
    if (listed && ((int64_t)l->n < p->num_hidden_layers || l->n > MAX_LAYERS))
        pe_invalid(err, "no_rope_layers", posenc_text("%zu values", l->n), "%lld values or more, one a layer",
                   (long long)p->num_hidden_layers);
    for (size_t i = 0; i < l->n && !err->n; i++)
        if (l->v[i] != floor(l->v[i]))
            pe_invalid(err, posenc_text("no_rope_layers[%zu]", i).s, posenc_text("%.17g", l->v[i]), "0 or 1");
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const no_rope_layers *p = r->params;
    return pe_output(out, "no_rope_layers", PE_int64, 1, &p->num_hidden_layers, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const no_rope_layers *p = r->params;
    *out = (posenc_cost){ .ns = 500 + 4 * (double)p->num_hidden_layers };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const no_rope_layers *p = r->params;
    int64_t *layer = pe_tensor(out, "no_rope_layers")->data;
    (void)err;
    for (int64_t i = 0; i < p->num_hidden_layers; i++)
        layer[i] = p->no_rope_layers.n ? (int64_t)p->no_rope_layers.v[i] : (i + 1) % p->no_rope_layer_interval != 0;
    return posenc_poll(ctx); /* at most 2^20 layers: well below a polling interval */
}

/* ---- descriptor ---- */

const posenc_encoding pe_no_rope_layers = {
    .name = "no_rope_layers",
    .family = "rotary",
    .title = "which layers use rotary positions",
    .source = "transformers, SmolLM3Config and Llama4TextConfig",
    .formula = "no_rope_layers[i] = 0 where (i + 1) mod no_rope_layer_interval = 0, else 1 (the layer uses rope)",
    .example = "num_hidden_layers=36",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(no_rope_layers, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
