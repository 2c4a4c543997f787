/* resolve.h - the inside of lib/resolve: from a model's configuration to the requests of its positions.
 *
 *   tree.c       JSON text -> objects whose members are found by name (duplicates refused, Python's NaN admitted)
 *   read.c       keys with their other spellings and class defaults -> checked values; faults with paths
 *   build.c      requests: parameters, each with the place it came from; checked by the encoding itself
 *   models.c     the table: model type -> scheme, layout, layer rule, class defaults
 *   layers.c     which layer is of which type
 *   rope.c       rotary schemes of text towers           (rope, mrope)
 *   families.c   models that keep their rotary keys in ways of their own; slopes
 *   tables.c     learned and sinusoidal tables, buckets, slopes
 *   vision.c     image towers; latents and time steps of diffusion models
 *   resolve.c    the walk over a configuration's sections; the answer
 *   write.c      the answer as JSON
 *
 * Everything lives in one arena; nothing is freed piece by piece. Not thread-safe within one resolution. */
#ifndef PE_RESOLVE_H
#define PE_RESOLVE_H

#include "core/params.h"
#include "formats/scan.h"

/* ---- tree.c ---- */

typedef struct pe_node pe_node;
struct pe_node { /* a member of an object, or the document */
    const pe_node *parent;
    const char *key;      /* NULL: the document */
    pe_json value;        /* in the copy that the tree was read from */
    const char *original; /* the same place in the client's text: what faults quote */
    const pe_node *child; /* members of an object, sorted by key; arrays are read in place */
    size_t n;
};

enum { PE_CONFIG_SIZE = 2 << 20 }; /* bytes of a configuration: the largest published ones have half of it */
enum { PE_MAX_TOWERS = 64 };       /* of a configuration: published ones have up to a dozen */

/* NULL: see err. Python's NaN, Infinity and -Infinity are admitted; whoever reads such a value refuses it. */
const pe_node *pe_tree_read(const char *json, size_t n, posenc_arena *a, posenc_error *err);
const pe_node *pe_node_member(const pe_node *object, const char *key); /* NULL: none, or null */
bool pe_node_is_object(const pe_node *node);
posenc_short pe_node_show(const pe_node *node, pe_json part); /* as the client wrote it */

/* ---- the model table ---- */

typedef struct pe_section pe_section;
typedef void pe_scheme(const pe_section *s);

/* What holds for all models of a type, beside its scheme. */
enum {
    PE_INTERLEAVED = 1 << 0,      /* channels 2j and 2j+1 rotate together */
    PE_HALF_OUT = 1 << 1,         /* read interleaved, written half, as DeepSeek-V3; `rope_interleave` switches it */
    PE_MLA = 1 << 2,              /* the rotary width is qk_rope_head_dim */
    PE_SECTIONS = 1 << 3,         /* several position axes: mrope */
    PE_INTERLEAVED_AXES = 1 << 4, /*   assigned channel by channel (Qwen3-VL) */
    PE_PER_TYPE = 1 << 5,         /* each layer type has its own frequencies */
    PE_SCALE_FULL = 1 << 6,       /* a flat scaling block is for full_attention layers only */
    PE_FULL_NOPE = 1 << 7,        /* full_attention layers do not rotate where the others slide */
    PE_NOPE_LIST = 1 << 8,        /* no_rope_layers says which layers rotate */
    PE_LAST_FULL = 1 << 9,        /* without layer_types: every sliding_window_pattern-th layer is full */
    PE_FIRST_FULL = 1 << 10,      /*   layer 0 and every global_attn_every_n_layers-th */
    PE_LAST_LINEAR = 1 << 11,     /*   every full_attention_interval-th layer is full, the others are linear */
    PE_ENCODERS = 1 << 12,        /* a pair of towers: layers are named text and vision */
    PE_AXES_COLUMNS = 1 << 13,    /*   the sections cut the columns of the table (HunYuan-VL), not its pairs */
};

typedef struct pe_model {
    const char *type;
    pe_scheme *scheme; /* NULL: only its sections have positions */
    unsigned flags;
    const char *defaults; /* "key=value ...", as the peer's class has them */
    const char *rope;     /* the class's rope_parameters, JSON; NULL: plain */
} pe_model;

const pe_model *pe_model_named(const char *type, size_t n);
/* "LlamaForCausalLM" -> llama. NULL: none. */
const pe_model *pe_model_of_class(const char *name);

/* ---- read.c ---- */

typedef struct pe_resolver {
    posenc_arena *arena;
    posenc_error *err;
    posenc_resolution *out;
    size_t room_requests, room_defaults, room_warnings;
    unsigned towers; /* resolved so far */
    bool failed;     /* out of memory */
} pe_resolver;

/* One tower being resolved: where its keys are, and what its type is known for. */
struct pe_section {
    pe_resolver *r;
    const pe_node *node;
    const pe_model *model; /* NULL: unknown */
    bool guess;            /* the model was found by its class name: no defaults of it are used */
    bool nested;           /* part of a composite */
    const char *layers;    /* "all", "vision", ...: the layer type of requests for the whole tower */
};

/* A value with its place. value.p NULL: absent. */
typedef struct pe_found {
    const pe_node *node; /* NULL: a class default */
    const char *path, *name;
    pe_json value;
} pe_found;

/* `names`: spellings in order, "n_embd|hidden_size". Two that are given and differ are a fault. */
pe_found pe_given_key(const pe_section *s, const char *names);
/* The same; where none is given the class default, which is told to the client. */
pe_found pe_key(const pe_section *s, const char *names);
pe_found pe_required_key(const pe_section *s, const char *names);                  /* a fault where there is none */
pe_found pe_key_in(const pe_section *s, const pe_node *object, const char *names); /* members of another object */
bool pe_found_any(pe_found f);
/* False: absent, or a fault that has been told. */
bool pe_as_int(const pe_section *s, pe_found f, int64_t min, int64_t max, int64_t *out);
bool pe_as_real(const pe_section *s, pe_found f, double *out); /* any finite number */
bool pe_as_positive(const pe_section *s, pe_found f, double *out);
bool pe_as_bool(const pe_section *s, pe_found f, bool *out);
const char *pe_as_word(const pe_section *s, pe_found f); /* NULL: absent, or no string */
size_t pe_list_size(pe_found f);                         /* elements of an array; 0 for anything else */
bool pe_is_true(const pe_section *s, const char *names); /* given, and true */
bool pe_is_list(pe_found f);
bool pe_is_null(const pe_section *s, const char *key); /* there, as null: elsewhere that is the same as absent */

bool pe_model_flag(const pe_section *s, unsigned flag);
/* What a scheme wants to know of a type beside the configuration: "@name=value" among the defaults. Never told. */
const char *pe_model_fact(const pe_section *s, const char *name); /* NULL: none */
int64_t pe_model_fact_int(const pe_section *s, const char *name, int64_t otherwise);
const char *pe_key_path(const pe_section *s, const char *key); /* "text_config.rope_theta" */
const char *pe_key_path_in(const pe_section *s, const pe_node *object, const char *key);
void pe_reject(const pe_section *s, const char *path, const char *value, const char *allowed, ...) POSENC_PRINTF(4, 5);
void pe_reject_missing(const pe_section *s, const char *path, const char *why);
void pe_reject_value(const pe_section *s, pe_found f, const char *allowed, ...) POSENC_PRINTF(3, 4);
void pe_resolve_warning(const pe_section *s, const char *format, ...) POSENC_PRINTF(2, 3);
void pe_default_used(const pe_section *s, const char *path, const char *json, size_t n);
char *pe_print_text(pe_resolver *r, const char *format, ...) POSENC_PRINTF(2, 3); /* in the arena; "" without memory */

/* Sizes that several schemes need; each tells its fault. */
bool pe_read_heads(const pe_section *s, int64_t *out, pe_found *from);
bool pe_read_width(const pe_section *s, int64_t *out, pe_found *from);
bool pe_read_head_dim(const pe_section *s, const char *names, int64_t *out, const char **path);
bool pe_read_pair(const pe_section *s, pe_found f, int64_t min, int64_t out[2]); /* an integer, or two */

/* ---- build.c ---- */

typedef struct pe_draft_value { /* a parameter, or a fact of `needs` */
    const char *name, *json, *path;
} pe_draft_value;

typedef struct pe_draft { /* a request being written */
    const pe_section *s;
    const char *layer_type, *encoding, *note;
    pe_draft_value param[40], need[8];
    size_t nparams, nneeds;
    const char *probe; /* what the caller chooses, for the check: "\"positions\":[0]" */
    bool open;         /* without the caller's choice there is nothing to compute */
    const int64_t *layer;
    size_t nlayers;
} pe_draft;

pe_draft pe_draft_of(const pe_section *s, const char *encoding); /* for the whole tower */
void pe_draft_int(pe_draft *d, const char *name, int64_t v, const char *path);
void pe_draft_real(pe_draft *d, const char *name, double v, const char *path);
void pe_draft_bool(pe_draft *d, const char *name, bool v, const char *path);
void pe_draft_word(pe_draft *d, const char *name, const char *v, const char *path);
void pe_draft_found(pe_draft *d, const char *name, pe_found f); /* as it stands */
void pe_draft_pair(pe_draft *d, const char *name, const int64_t v[2], const char *path);
void pe_need_int(pe_draft *d, const char *name, int64_t v);
void pe_need_pair(pe_draft *d, const char *name, int64_t a, int64_t b);
void pe_need_word(pe_draft *d, const char *name, const char *v);
void pe_draft_note(pe_draft *d, const char *format, ...) POSENC_PRINTF(2, 3);
/* Checks it by the encoding's own rules and adds it to the answer; faults name the configuration's keys. */
void pe_draft_add(pe_draft *d);
/* A draft whose encoding is `none`. */
void pe_draft_add_none(const pe_section *s, const char *layer_type, const int64_t *layer, size_t nlayers, const char *why);

/* ---- layers.c ---- */

enum { PE_MAX_TYPES = 16, PE_MAX_LAYERS = 4096 };
typedef struct pe_layers {
    size_t n; /* layers whose type is known; 0: the configuration does not say */
    const char *of[PE_MAX_LAYERS];
    const char *type[PE_MAX_TYPES]; /* distinct, in order of appearance */
    size_t ntypes;
    const char *path; /* of the list */
} pe_layers;

/* False: a fault has been told. */
bool pe_read_layers(const pe_section *s, pe_layers *out);
bool pe_type_known(const char *type);
bool pe_type_rotates(const char *type); /* not linear_attention, mamba, conv, ... */
/* The numbers of the layers for which `of` is that type, or of those which rotate (type NULL). */
const int64_t *pe_layers_of(const pe_section *s, const pe_layers *l, const char *type, size_t *n);

/* ---- schemes ---- */

/* rope.c, families.c */
pe_scheme pe_resolve_rope, pe_resolve_deepseek_v4, pe_resolve_chatglm, pe_resolve_qwen, pe_resolve_falcon, pe_resolve_mpt,
    pe_resolve_baichuan, pe_resolve_alibi, pe_resolve_gpt_neo, pe_resolve_gpt_j, pe_resolve_dbrx, pe_resolve_rope_if,
    pe_resolve_conformer, pe_resolve_none, pe_resolve_kimi_linear;
/* tables.c */
pe_scheme pe_resolve_learned, pe_resolve_mpnet, pe_resolve_t5, pe_resolve_deberta, pe_resolve_xlnet, pe_resolve_transfo_xl,
    pe_resolve_sinusoidal, pe_resolve_whisper, pe_resolve_wav2vec2, pe_resolve_distilbert;
/* vision.c */
pe_scheme pe_resolve_vit, pe_resolve_qwen_vision, pe_resolve_pixtral, pe_resolve_dinov3, pe_resolve_gemma4_vision,
    pe_resolve_llama4_vision, pe_resolve_swin, pe_resolve_swinv2, pe_resolve_beit, pe_resolve_vit_mae;
/* Diffusion models name a class instead of a type. True: it is known and has been resolved. */
bool pe_resolve_diffusion(const pe_section *s, const char *class_name);

#endif
