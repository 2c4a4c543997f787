/* test_resolve.c - configurations to requests: every scheme, other spellings, layer types, defaults; every kind of fault by
 * its path; Python's NaN; documents that end early. */
#include "posenc.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static posenc_status resolve(const char *json, size_t n, char **out, posenc_error *err)
{
    posenc_arena *a = posenc_arena_new(64 << 20);
    posenc_resolution r;
    ck_assert_ptr_nonnull(a);
    char *own = malloc(n + 1); /* freed before the answer is read, and with no byte to spare */
    ck_assert_ptr_nonnull(own);
    if (n)
        memcpy(own, json, n);
    posenc_status st = posenc_resolve_config(own, n, a, &r, err);
    free(own);
    *out = st ? NULL : posenc_resolution_json(&r);
    posenc_arena_free(a);
    return st;
}

static json_t *answer_of(const char *json)
{
    posenc_error err = { 0 };
    char text[1024], *s = NULL;
    ck_assert_msg(resolve(json, strlen(json), &s, &err) == PE_OK, "%s: %s", json,
                  posenc_error_text(&err, text, sizeof text));
    json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(o);
    free(s);
    return o;
}

static const char *word(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The first request of that layer type and encoding; NULL: none. */
static const json_t *request(const json_t *answer, const char *layer_type, const char *encoding)
{
    const json_t *list = json_object_get(answer, "requests");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *q = json_array_get(list, i);
        if (!strcmp(word(q, "layer_type"), layer_type) && !strcmp(word(q, "encoding"), encoding))
            return q;
    }
    return NULL;
}

static bool contains(const json_t *all, const json_t *part)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)part, key, v)
    {
        const json_t *w = json_object_get(all, key);
        bool same = json_is_number(v) && json_is_number(w) ? json_number_value(v) == json_number_value(w) : json_equal(v, w);
        if (!same)
            return false;
    }
    return true;
}

/* ---- what is resolved ---- */

/* `params` and `needs`: members that must be among the request's. `absent`: a parameter that must not be there. */
static const struct {
    const char *config, *layer_type, *encoding, *params, *needs, *absent;
} good[] = {
    /* rotary: plain, partial, other spellings */
    { "{'model_type':'llama','hidden_size':4096,'num_attention_heads':32,'rope_theta':500000.0}", "all", "rope",
      "{'head_dim':128,'rope_theta':500000,'layout':'half'}", "{}", "rope_type" },
    { "{'model_type':'gpt_neox','hidden_size':6144,'num_attention_heads':64,'rotary_pct':0.25,'rotary_emb_base':10000}",
      "all", "rope", "{'head_dim':96,'partial_rotary_factor':0.25,'rope_theta':10000}", "{}", "rope_type" },
    { "{'model_type':'gptj','n_embd':4096,'n_head':16,'rotary_dim':64,'n_positions':2048}", "all", "rope",
      "{'head_dim':256,'partial_rotary_factor':0.25,'layout':'interleaved','max_position_embeddings':2048}", "{}",
      "rope_type" },
    { "{'model_type':'gptj','n_embd':96,'n_head':1,'rotary_dim':28}", "all", "rope", "{'head_dim':96,'rope_theta':10000}",
      "{}", "rope_type" },
    { "{'model_type':'mimo_v2_flash','head_dim':192,'num_hidden_layers':3,'hybrid_layer_pattern':[0,1,1],"
      "'partial_rotary_factor':0.334,'rope_theta':5000000,'swa_rope_theta':10000}",
      "sliding_attention", "rope", "{'partial_rotary_factor':0.334,'rope_theta':10000}", "{}", "rope_type" },
    { "{'model_type':'dbrx','d_model':6144,'n_heads':48,'attn_config':{'rope_theta':500000}}", "all", "rope",
      "{'head_dim':128,'rope_theta':500000}", "{}", "rope_type" },
    { "{'model_type':'chatglm','kv_channels':128,'rope_ratio':50,'seq_length':8192}", "all", "rope",
      "{'head_dim':128,'rope_theta':500000,'partial_rotary_factor':0.5,'layout':'interleaved'}", "{}", "rope_type" },
    { "{'model_type':'deepseek_v3','qk_rope_head_dim':64,'head_dim':192}", "all", "rope",
      "{'head_dim':64,'layout':'interleaved'}", "{}", "rope_type" },
    { "{'model_type':'deepseek_v3','qk_rope_head_dim':64,'rope_interleave':false}", "all", "rope",
      "{'head_dim':64,'layout':'half'}", "{}", "rope_type" },
    { "{'model_type':'qwen3','head_dim':128,'hidden_size':2050,'num_attention_heads':32}", "all", "rope", "{'head_dim':128}",
      "{}", "rope_type" },
    /* scaling */
    { "{'model_type':'llama','rope_scaling':{'type':'linear','factor':2}}", "all", "rope",
      "{'rope_type':'linear','factor':2}", "{}", "original_max_position_embeddings" },
    { "{'model_type':'llama','max_position_embeddings':131072,'rope_scaling':{'rope_type':'llama3','factor':8,"
      "'low_freq_factor':1,'high_freq_factor':1,'original_max_position_embeddings':8192}}",
      "all", "rope", "{'rope_type':'llama3','low_freq_factor':1,'high_freq_factor':1}", "{}", "alpha" },
    { "{'model_type':'phi3','hidden_size':8,'num_attention_heads':1,'max_position_embeddings':131072,"
      "'original_max_position_embeddings':4096,'rope_scaling':{'type':'su','short_factor':[1,1,1,1],"
      "'long_factor':[1,2,3,4]}}",
      "all", "rope", "{'rope_type':'longrope','long_factor':[1,2,3,4],'original_max_position_embeddings':4096}", "{}",
      "factor" },
    { "{'model_type':'gpt_oss'}", "all", "rope",
      "{'rope_type':'yarn','factor':32,'truncate':false,'original_max_position_embeddings':4096,'rope_theta':150000}", "{}",
      "alpha" },
    { "{'model_type':'llama','max_position_embeddings':65536,'rope_scaling':{'rope_type':'yarn','factor':16,'beta_fast':1,"
      "'beta_slow':1,'original_max_position_embeddings':4096}}",
      "all", "rope", "{'beta_fast':1,'beta_slow':1}", "{}", "alpha" },
    { "{'model_type':'hunyuan','hidden_size':6400,'num_attention_heads':80,'rope_scaling':{'type':'dynamic','alpha':1000,"
      "'factor':1}}",
      "all", "rope", "{'rope_type':'ntk_alpha','alpha':1000}", "{}", "factor" },
    { "{'model_type':'qwen','hidden_size':4096,'num_attention_heads':32,'seq_length':2048}", "all", "rope",
      "{'rope_type':'ntk_alpha','original_max_position_embeddings':2048}", "{}", "alpha" },
    { "{'model_type':'llama','rope_parameters':{'rope_type':'default','rope_theta':5e5},'rope_theta':500000}", "all", "rope",
      "{'rope_theta':500000}", "{}", "rope_type" },
    /* by layer type */
    { "{'model_type':'gemma3_text','num_hidden_layers':6,'rope_scaling':{'rope_type':'linear','factor':8}}",
      "full_attention", "rope", "{'rope_theta':1000000,'rope_type':'linear','factor':8,'head_dim':256}", "{}", "alpha" },
    { "{'model_type':'gemma3_text','num_hidden_layers':6,'rope_scaling':{'rope_type':'linear','factor':8}}",
      "sliding_attention", "rope", "{'rope_theta':10000}", "{}", "rope_type" },
    { "{'model_type':'olmo3','num_hidden_layers':4,'max_position_embeddings':65536,'rope_scaling':{'rope_type':'yarn',"
      "'factor':8,'original_max_position_embeddings':8192}}",
      "sliding_attention", "rope", "{'rope_theta':500000}", "{}", "rope_type" },
    { "{'model_type':'gemma4_text','layer_types':['full_attention'],'rope_parameters':{'full_attention':{"
      "'rope_type':'proportional','partial_rotary_factor':0.25,'rope_theta':1e6}}}",
      "full_attention", "rope", "{'head_dim':512,'rope_type':'proportional','partial_rotary_factor':0.25}", "{}", "alpha" },
    { "{'model_type':'step3p5','num_hidden_layers':2,'num_nextn_predict_layers':1,'layer_types':['full_attention',"
      "'sliding_attention','sliding_attention'],'rope_theta':[5e6,1e4,1e4],'partial_rotary_factors':[0.5,1.0,1.0]}",
      "full_attention", "rope", "{'rope_theta':5000000,'partial_rotary_factor':0.5}", "{}", "alpha" },
    { "{'model_type':'ohmymodern','hidden_size':768,'num_attention_heads':12,'num_hidden_layers':4,"
      "'global_rope_theta':160000,'local_rope_theta':10000,'global_attn_every_n_layers':3}",
      "full_attention", "rope", "{'rope_theta':160000,'head_dim':64}", "{}", "layout" },
    { "{'model_type':'exaone4','sliding_window':4096,'num_hidden_layers':4,'sliding_window_pattern':'LLLG'}", "all", "rope",
      "{'head_dim':128}", "{}", "alpha" },
    { "{'model_type':'smollm3','no_rope_layers':[1,1,1,0],'num_hidden_layers':4}", "no_rope", "none", "{}", "{}",
      "head_dim" },
    { "{'model_type':'deepseek_v4','rope_scaling':{'type':'yarn','factor':16,'original_max_position_embeddings':65536}}",
      "compress", "rope", "{'rope_theta':160000,'rope_type':'yarn','attention_factor':1,'partial_rotary_factor':0.125}",
      "{}", "alpha" },
    { "{'model_type':'deepseek_v4','rope_scaling':{'type':'yarn','factor':16,'original_max_position_embeddings':65536}}",
      "main", "rope", "{'rope_theta':10000,'partial_rotary_factor':0.125}", "{}", "rope_type" },
    { "{'model_type':'nemotron_h','rope_theta':10000}", "all", "none", "{}", "{}", "rope_theta" },
    /* several axes */
    { "{'model_type':'qwen2_vl','hidden_size':1536,'num_attention_heads':12,'rope_scaling':{'type':'mrope',"
      "'mrope_section':[16,24,24]},'vision_config':{'model_type':'qwen2_vl'}}",
      "all", "mrope", "{'mrope_section':[16,24,24],'mrope_interleaved':false,'head_dim':128}", "{}", "rope_type" },
    { "{'model_type':'qwen2_vl','hidden_size':1536,'num_attention_heads':12,'vision_config':{'hidden_size':1536}}", "vision",
      "rope_2d", "{'head_dim':80,'rope_theta':10000,'spatial_merge_size':2}", "{}", "alpha" },
    { "{'text_config':{'head_dim':128,'rope_parameters':{'alpha':1000,'rope_theta':10000,'rope_type':'xdrope',"
      "'xdrope_section':[16,16,16,16]}}}",
      "all", "mrope", "{'rope_type':'ntk_alpha','mrope_section':[16,16,16,16],'section_span':'columns'}", "{}", "factor" },
    { "{'model_type':'qwen3_5_text','num_hidden_layers':4}", "linear_attention", "none", "{}", "{}", "head_dim" },
    { "{'model_type':'mimo','hidden_size':4096,'num_attention_heads':32,'use_mrope':false}", "all", "rope", "{}", "{}",
      "mrope_section" },
    /* slopes */
    { "{'model_type':'bloom','n_head':16}", "all", "alibi", "{'num_heads':16,'form':'key_position'}", "{}",
      "alibi_bias_max" },
    { "{'model_type':'mpt','n_heads':32,'attn_config':{'alibi':true,'alibi_bias_max':16}}", "all", "alibi",
      "{'num_heads':32,'form':'mpt','alibi_bias_max':16}", "{}", "slope_dtype" },
    { "{'model_type':'mpt','d_model':64,'n_heads':2,'max_seq_len':128,'attn_config':{'alibi':false}}", "all", "learned",
      "{}", "{'table_shape':[128,64],'first_position':0}", "num_heads" },
    { "{'model_type':'falcon','alibi':true,'num_attention_heads':71}", "all", "alibi", "{'num_heads':71}", "{}",
      "rope_theta" },
    { "{'model_type':'falcon','alibi':false}", "all", "rope", "{'head_dim':64}", "{}", "num_heads" },
    { "{'model_type':'baichuan','hidden_size':5120,'num_hidden_layers':40,'num_attention_heads':40}", "all", "alibi",
      "{'num_heads':40}", "{}", "rope_theta" },
    /* tables */
    { "{'model_type':'gpt2','n_positions':1024,'n_embd':1600}", "all", "learned", "{}",
      "{'table_shape':[1024,1600],'first_position':0}", "offset" },
    { "{'model_type':'bart','d_model':768,'max_position_embeddings':1024}", "encoder+decoder", "learned", "{'offset':2}",
      "{'table_shape':[1026,768],'first_position':2}", "padding_idx" },
    { "{'model_type':'roberta','hidden_size':768,'max_position_embeddings':514,'pad_token_id':1}", "all", "learned",
      "{'padding_idx':1}", "{'table_shape':[514,768],'first_position':2,'padding_idx':1}", "offset" },
    { "{'model_type':'electra','embedding_size':128,'hidden_size':256}", "all", "learned", "{}", "{'table_shape':[512,128]}",
      "offset" },
    { "{'model_type':'bert','position_embedding_type':'relative_key','hidden_size':768,'num_attention_heads':12}", "all",
      "learned", "{}", "{'table_shape':[1023,64]}", "offset" },
    { "{'model_type':'m2m_100','max_position_embeddings':1024,'d_model':1024,'pad_token_id':1}", "decoder", "sinusoidal",
      "{'embedding_dim':1024,'layout':'split','downscale_freq_shift':1,'padding_idx':1,'num_positions':1026}",
      "{'first_position':2}", "offset" },
    { "{'model_type':'marian','max_position_embeddings':512,'d_model':512}", "encoder+decoder", "sinusoidal",
      "{'odd_dim':'sin_extra','compute_dtype':'float64','downscale_freq_shift':0}", "{}", "padding_idx" },
    { "{'model_type':'whisper','d_model':384}", "encoder", "sinusoidal",
      "{'embedding_dim':384,'num_positions':1500,'downscale_freq_shift':1}", "{}", "offset" },
    { "{'model_type':'whisper','d_model':384}", "decoder", "learned", "{}", "{'table_shape':[448,384]}", "offset" },
    { "{'model_type':'t5','num_heads':64}", "decoder", "t5_bucket",
      "{'bidirectional':false,'num_buckets':32,'max_distance':128}", "{'table_shape':[32,64]}", "variant" },
    { "{'model_type':'deberta-v2','relative_attention':true,'position_buckets':256,'max_relative_positions':-1,"
      "'max_position_embeddings':512,'position_biased_input':false}",
      "encoder", "deberta_relative", "{'position_buckets':256,'max_relative_positions':512,'clamp':false}", "{}", "offset" },
    { "{'model_type':'xlnet','d_model':768,'clamp_len':-1}", "all", "relative_sinusoidal",
      "{'preset':'xlnet','embedding_dim':768,'attn_type':'bi'}", "{}", "clamp_len" },
    { "{'model_type':'mpnet','hidden_size':768,'num_attention_heads':12}", "encoder", "t5_bucket", "{'max_distance':128}",
      "{'table_shape':[32,12]}", "offset" },
    { "{'model_type':'wav2vec2','num_conv_pos_embeddings':128}", "encoder", "conv_position", "{}", "{'kernel':128}",
      "offset" },
    /* images, latents */
    { "{'model_type':'vit','hidden_size':768,'image_size':224,'patch_size':16}", "all", "vit_resize",
      "{'old_size':[14,14],'num_prefix_tokens':1,'antialias':false}", "{'table_shape':[197,768],'grid':[14,14]}", "posemb" },
    { "{'model_type':'siglip_vision_model','image_size':384,'patch_size':14,'hidden_size':1152}", "all", "vit_resize",
      "{'num_prefix_tokens':0}", "{'table_shape':[729,1152]}", "posemb" },
    { "{'model_type':'clip','text_config':{},'vision_config':{'image_size':336,'patch_size':14,'hidden_size':1024}}",
      "vision", "vit_resize", "{}", "{'table_shape':[577,1024]}", "posemb" },
    { "{'model_type':'clip','text_config':{},'vision_config':{}}", "text", "learned", "{}", "{'table_shape':[77,512]}",
      "offset" },
    { "{'model_type':'swin','window_size':7}", "all", "swin_relative_position_index", "{'window_size':[7,7]}",
      "{'table_rows':169}", "offset" },
    { "{'model_type':'dinov3_vit','hidden_size':1024,'num_attention_heads':16}", "vision", "rope_2d",
      "{'preset':'dinov3','head_dim':64,'rope_theta':100}", "{}", "offset" },
    { "{'_class_name':'FluxTransformer2DModel','axes_dims_rope':[16,56,56]}", "latent", "rope_nd",
      "{'axes_dim':[16,56,56],'rope_theta':10000}", "{}", "ids" },
    { "{'_class_name':'UNet2DConditionModel','block_out_channels':[320,640],'flip_sin_to_cos':true,'freq_shift':0,"
      "'addition_embed_type':'text_time','addition_time_embed_dim':256}",
      "add_time_ids", "timestep", "{'embedding_dim':256,'flip_sin_to_cos':true,'downscale_freq_shift':0}", "{}",
      "timesteps" },
};

/* Single quotes read better in C. */
static char *quoted(const char *s)
{
    char *t = strdup(s);
    ck_assert_ptr_nonnull(t);
    for (char *p = t; *p; p++)
        if (*p == '\'')
            *p = '"';
    return t;
}

static json_t *object(const char *s)
{
    char *t = quoted(s);
    json_t *o = json_loads(t, 0, NULL);
    ck_assert_msg(o != NULL, "%s", t);
    free(t);
    return o;
}

START_TEST(schemes)
{
    char *config = quoted(good[_i].config);
    json_t *answer = answer_of(config), *params = object(good[_i].params), *needs = object(good[_i].needs);
    const json_t *q = request(answer, good[_i].layer_type, good[_i].encoding);
    ck_assert_msg(q != NULL, "%s: no %s %s", config, good[_i].layer_type, good[_i].encoding);
    char *text = json_dumps(q, 0);
    ck_assert_msg(contains(json_object_get(q, "params"), params), "%s: %s", config, text);
    ck_assert_msg(contains(json_object_get(q, "needs"), needs), "%s: %s", config, text);
    ck_assert_msg(!json_object_get(json_object_get(q, "params"), good[_i].absent), "%s: %s", config, text);
    free(text);
    free(config);
    json_decref(answer);
    json_decref(params);
    json_decref(needs);
}
END_TEST

/* Every request can be posted as it is, with what `needs` says. */
START_TEST(requests_are_accepted)
{
    char *config = quoted(good[_i].config);
    json_t *answer = answer_of(config);
    const json_t *list = json_object_get(answer, "requests");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *q = json_array_get(list, i);
        const char *name = word(q, "encoding");
        if (!strcmp(name, "none") || !strcmp(name, "conv_position"))
            continue;
        ck_assert_msg(posenc_encoding_named(name) != NULL, "%s: no encoding %s", config, name);
    }
    free(config);
    json_decref(answer);
}
END_TEST

/* int(96 * share) is 28 again, though 28/96 is no double. */
START_TEST(widths_survive_as_shares)
{
    json_t *answer = answer_of("{\"model_type\":\"gptj\",\"n_embd\":96,\"n_head\":1,\"rotary_dim\":28}");
    const json_t *p = json_object_get(request(answer, "all", "rope"), "params");
    ck_assert_int_eq((int)(96 * json_number_value(json_object_get(p, "partial_rotary_factor"))), 28);
    json_decref(answer);
    for (int width = 2; width <= 256; width += 2) {
        char config[128];
        snprintf(config, sizeof config, "{\"model_type\":\"gptj\",\"n_embd\":257,\"n_head\":1,\"rotary_dim\":%d}", width);
        answer = answer_of(config);
        p = json_object_get(request(answer, "all", "rope"), "params");
        ck_assert_int_eq((int)(257 * json_number_value(json_object_get(p, "partial_rotary_factor"))), width);
        json_decref(answer);
    }
}
END_TEST

START_TEST(layers_are_listed)
{
    json_t *a = answer_of("{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":7}"), *want = object("[5]");
    ck_assert(json_equal(json_object_get(request(a, "full_attention", "rope"), "layers"), want));
    json_decref(a);
    json_decref(want);
    a = answer_of("{\"model_type\":\"modernbert\",\"num_hidden_layers\":7}");
    want = object("[0,3,6]");
    ck_assert(json_equal(json_object_get(request(a, "full_attention", "rope"), "layers"), want));
    json_decref(a);
    json_decref(want);
    a = answer_of("{\"model_type\":\"llama4_text\",\"num_hidden_layers\":8}");
    want = object("[3,7]");
    ck_assert(json_equal(json_object_get(request(a, "no_rope", "none"), "layers"), want));
    ck_assert_ptr_nonnull(request(a, "no_rope", "attention_temperature"));
    json_decref(a);
    json_decref(want);
    a = answer_of("{\"model_type\":\"mllama_text_model\",\"num_hidden_layers\":4,\"cross_attention_layers\":[1,3]}");
    want = object("[0,2]");
    ck_assert(json_equal(json_object_get(request(a, "all", "rope"), "layers"), want));
    ck_assert_ptr_nonnull(request(a, "cross_attention", "none"));
    json_decref(a);
    json_decref(want);
    a = answer_of("{\"model_type\":\"exaone4\",\"sliding_window\":4096,\"num_hidden_layers\":5,"
                  "\"sliding_window_pattern\":\"LLLG\"}");
    want = object("[0,1,2,4]");
    ck_assert(json_equal(json_object_get(request(a, "all", "rope"), "layers"), want));
    ck_assert_ptr_nonnull(request(a, "full_attention", "none"));
    json_decref(a);
    json_decref(want);
    a = answer_of(
        "{\"model_type\":\"exaone4\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\",\"full_attention\"]}");
    ck_assert_ptr_null(json_object_get(request(a, "all", "rope"), "layers"));
    json_decref(a);
    a = answer_of("{\"model_type\":\"exaone4\",\"num_hidden_layers\":5,\"sliding_window\":null}");
    ck_assert_ptr_null(request(a, "full_attention", "none"));
    json_decref(a);
    a = answer_of("{\"model_type\":\"llama\"}");
    ck_assert_ptr_null(json_object_get(request(a, "all", "rope"), "layers"));
    json_decref(a);
}
END_TEST

START_TEST(defaults_are_told)
{
    json_t *a = answer_of("{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"llama\"},\"vision_config\":{"
                          "\"model_type\":\"clip_vision_model\",\"hidden_size\":8,\"image_size\":4,\"patch_size\":2}}");
    json_t *want = object("{'text_config.hidden_size':4096,'text_config.num_attention_heads':32,"
                          "'text_config.rope_theta':10000}");
    ck_assert(json_equal(json_object_get(a, "defaults_used"), want));
    json_decref(a);
    json_decref(want);
    a = answer_of("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":2,\"rope_theta\":1}");
    ck_assert_uint_eq(json_object_size(json_object_get(a, "defaults_used")), 0);
    json_decref(a);
    a = answer_of("{\"model_type\":\"gpt_oss\",\"rope_theta\":150000}");
    ck_assert(json_number_value(json_object_get(json_object_get(a, "defaults_used"), "rope_parameters.factor")) == 32);
    json_decref(a);
}
END_TEST

/* A type that is not in the table: the keys decide, and a warning says so; nothing is filled in. */
START_TEST(unknown_types)
{
    json_t *a = answer_of("{\"model_type\":\"brandnew\",\"head_dim\":64,\"rope_theta\":7,\"hidden_size\":1}");
    ck_assert_uint_ge(json_array_size(json_object_get(a, "warnings")), 1);
    ck_assert_uint_eq(json_object_size(json_object_get(a, "defaults_used")), 0);
    ck_assert_ptr_null(json_object_get(json_object_get(request(a, "all", "rope"), "params"), "layout"));
    json_decref(a);
    a = answer_of("{\"model_type\":\"brandnew\",\"architectures\":[\"GptNeoXForCausalLM\"],\"hidden_size\":64,"
                  "\"num_attention_heads\":1,\"rotary_pct\":0.5,\"rotary_emb_base\":10000}");
    ck_assert_str_eq(word(json_object_get(request(a, "all", "rope"), "params"), "layout"), "half");
    ck_assert_uint_eq(json_object_size(json_object_get(a, "defaults_used")), 0);
    json_decref(a);
}
END_TEST

START_TEST(python_numbers)
{
    json_t *a = answer_of(
        "{\"model_type\":\"llama\",\"head_dim\":64,\"rope_theta\":1e4,\"rms\":NaN,\"x\":[-Infinity,Infinity],"
        "\"said\":\"NaN \\\" Infinity\"}");
    ck_assert_ptr_nonnull(request(a, "all", "rope"));
    json_decref(a);
}
END_TEST

/* ---- what is refused ---- */

#define LLAMA "'model_type':'llama','hidden_size':64,'num_attention_heads':2,'max_position_embeddings':8192"
static const struct {
    const char *config, *field;
} bad[] = {
    { "", "$" },
    { "{", "$" },
    { "[1]", "$" },
    { "{'a':1}}", "$" },
    { "{'a':'\x80'}", "$" },
    { "{'model_type':'llama','rope_theta':1Infinity}", "$" },
    { "{" LLAMA ",'rope_theta':1,'rope_theta':1}", "rope_theta" },
    { "{'':1,'':2}", "$" },
    { "{'text_config':{'rope_scaling':{'factor':1,'factor':2}}}", "text_config.rope_scaling.factor" },
    { "{'model_type':3}", "model_type" },
    { "{}", "model_type" },
    { "{'model_type':'brandnew'}", "model_type" },
    { "{'model_type':'brandnew','head_dim':64,'rope_scaling':{'type':'linear','factor':2}}", "rope_theta" },
    { "{'model_type':'brandnew','rope_theta':1}", "num_attention_heads" },
    { "{'_class_name':'AutoencoderKL'}", "_class_name" },
    /* numbers */
    { "{" LLAMA ",'rope_theta':true}", "rope_theta" },
    { "{" LLAMA ",'rope_theta':'10000'}", "rope_theta" },
    { "{" LLAMA ",'rope_theta':NaN}", "rope_theta" },
    { "{" LLAMA ",'rope_theta':-Infinity}", "rope_theta" },
    { "{" LLAMA ",'rope_theta':0}", "rope_theta" },
    { "{" LLAMA ",'rope_theta':[1,2]}", "rope_theta" },
    { "{'model_type':'llama','hidden_size':64,'num_attention_heads':0}", "num_attention_heads" },
    { "{'model_type':'llama','hidden_size':66,'num_attention_heads':4}", "num_attention_heads" },
    { "{'model_type':'llama','hidden_size':64,'num_attention_heads':2.5}", "num_attention_heads" },
    { "{'model_type':'llama','hidden_size':6,'num_attention_heads':2}", "num_attention_heads" },
    { "{" LLAMA ",'head_dim':33}", "head_dim" },
    { "{" LLAMA ",'n_embd':65}", "n_embd" },
    { "{'model_type':'phi','hidden_size':64,'num_attention_heads':2,'partial_rotary_factor':0.01}",
      "partial_rotary_factor" },
    { "{'model_type':'phi','hidden_size':64,'num_attention_heads':2,'partial_rotary_factor':1.5}", "partial_rotary_factor" },
    { "{'model_type':'phi','hidden_size':64,'num_attention_heads':2,'partial_rotary_factor':0.1}", "partial_rotary_factor" },
    { "{'model_type':'gptj','n_embd':64,'n_head':1,'rotary_dim':66}", "rotary_dim" },
    { "{'model_type':'gptj','n_embd':64,'n_head':1,'rotary_dim':33}", "rotary_dim" },
    { "{'model_type':'minimax_m3','head_dim':128,'rotary_dim':48,'partial_rotary_factor':0.5}", "rotary_dim" },
    /* places that disagree */
    { "{" LLAMA ",'rope_theta':1,'rope_parameters':{'rope_theta':2}}", "rope_theta" },
    { "{" LLAMA ",'rope_scaling':{'type':'linear','factor':2},'rope_parameters':{'type':'linear','factor':3}}",
      "rope_scaling.factor" },
    { "{" LLAMA ",'partial_rotary_factor':0.5,'rope_parameters':{'partial_rotary_factor':1.0}}", "partial_rotary_factor" },
    { "{" LLAMA ",'original_max_position_embeddings':1024,'rope_scaling':{'type':'yarn','factor':8,"
      "'original_max_position_embeddings':2048}}",
      "original_max_position_embeddings" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarn','rope_type':'linear','factor':2}}", "rope_scaling.rope_type" },
    { "{'model_type':'dbrx','rope_theta':1,'attn_config':{'rope_theta':2}}", "rope_theta" },
    { "{'model_type':'gemma3_text','rope_theta':1,'rope_parameters':{'full_attention':{'rope_theta':2},"
      "'sliding_attention':{'rope_theta':2}},'num_hidden_layers':6}",
      "rope_theta" },
    { "{'model_type':'gpt_neo','rotary':true}", "rotary" },
    /* scaling blocks */
    { "{" LLAMA ",'rope_scaling':'linear'}", "rope_scaling" },
    { "{" LLAMA ",'rope_parameters':[1]}", "rope_parameters" },
    { "{" LLAMA ",'rope_scaling':{'type':'linear'}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'linear','factor':null}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'dynamic'}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'factor':2}}", "rope_scaling.rope_type" },
    { "{" LLAMA ",'rope_scaling':{'type':'linear','factor':0.5}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'linear','factor':'2'}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'linear','factor':{'a':1}}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarnn','factor':2}}", "rope_scaling.type" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarn','original_max_position_embeddings':64}}", "rope_scaling.factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarn','factor':4,'original_max_position_embeddings':99999}}",
      "rope_scaling.original_max_position_embeddings" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarn','factor':4,'attention_factor':-1}}", "rope_scaling.attention_factor" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarn','factor':4,'beta_fast':1,'beta_slow':2}}", "rope_scaling.beta_fast" },
    { "{" LLAMA ",'rope_scaling':{'type':'yarn','factor':4,'truncate':1}}", "rope_scaling.truncate" },
    { "{" LLAMA ",'rope_scaling':{'rope_type':'llama3','factor':8,'high_freq_factor':4}}", "rope_scaling.low_freq_factor" },
    { "{" LLAMA ",'rope_scaling':{'rope_type':'llama3','factor':8,'low_freq_factor':5,'high_freq_factor':4}}",
      "rope_scaling.low_freq_factor" },
    { "{" LLAMA ",'rope_scaling':{'rope_type':'longrope','short_factor':[1]}}", "rope_scaling.short_factor" },
    { "{'model_type':'llama','hidden_size':4,'num_attention_heads':1,'rope_scaling':{'rope_type':'longrope',"
      "'short_factor':[1,1],'long_factor':[1,0]}}",
      "rope_scaling.long_factor[1]" },
    { "{'model_type':'llama','hidden_size':4,'num_attention_heads':1,'rope_scaling':{'rope_type':'longrope',"
      "'short_factor':[1,1]}}",
      "rope_scaling.long_factor" },
    { "{'model_type':'qwen2_vl_text','hidden_size':128,'num_attention_heads':1,'rope_scaling':{'type':'mrope',"
      "'mrope_section':[16,24,25]}}",
      "rope_scaling.mrope_section" },
    /* layers */
    { "{'model_type':'gemma4_text','layer_types':['sideways'],'num_hidden_layers':1}", "layer_types[0]" },
    { "{'model_type':'qwen3','layer_types':['full_attention','sideways']}", "layer_types[1]" },
    { "{'model_type':'qwen3','layer_types':['full_attention'],'num_hidden_layers':2}", "layer_types" },
    { "{'model_type':'gemma4_text','layer_types':['full_attention','sliding_attention'],'rope_parameters':{"
      "'full_attention':{'rope_theta':1}}}",
      "layer_types[1]" },
    { "{'model_type':'smollm3','no_rope_layers':[1,2],'num_hidden_layers':2}", "no_rope_layers[1]" },
    { "{'model_type':'smollm3','no_rope_layers':[1],'num_hidden_layers':2}", "no_rope_layers" },
    { "{'model_type':'mimo_v2_flash','hybrid_layer_pattern':[0,7],'num_hidden_layers':2}", "hybrid_layer_pattern[1]" },
    { "{'model_type':'mllama_text_model','num_hidden_layers':2,'cross_attention_layers':[2]}", "cross_attention_layers[0]" },
    { "{'model_type':'kimi_linear','num_hidden_layers':3,'linear_attn_config':{'full_attn_layers':[1],'kda_layers':[2]}}",
      "linear_attn_config.full_attn_layers" },
    { "{'model_type':'step3p5','num_hidden_layers':2,'layer_types':['full_attention','full_attention'],"
      "'rope_theta':[1,2]}",
      "rope_theta[1]" },
    /* the rest */
    { "{'model_type':'bloom','n_head':0}", "n_head" },
    { "{'model_type':'mpt','attn_config':3}", "attn_config" },
    { "{'model_type':'t5','relative_attention_num_buckets':3}", "relative_attention_num_buckets" },
    { "{'model_type':'t5','relative_attention_max_distance':8}", "relative_attention_max_distance" },
    { "{'model_type':'deberta-v2','relative_attention':1}", "relative_attention" },
    { "{'model_type':'xlnet','attn_type':'both'}", "attn_type" },
    { "{'model_type':'bert','position_embedding_type':'rotary'}", "position_embedding_type" },
    { "{'model_type':'roberta','pad_token_id':511}", "pad_token_id" },
    { "{'model_type':'vit','image_size':225}", "image_size" },
    { "{'model_type':'vit','image_size':[224,224,3]}", "image_size" },
    { "{'model_type':'qwen3_vl','vision_config':{'num_position_embeddings':2305}}",
      "vision_config.num_position_embeddings" },
    { "{'model_type':'qwen2_vl','vision_config':{'embed_dim':100,'num_heads':16}}", "vision_config.num_heads" },
    { "{'model_type':'llava','text_config':3}", "text_config" },
    { "{'_class_name':'FluxTransformer2DModel','axes_dims_rope':[16,56,58]}", "axes_dims_rope" },
    { "{'_class_name':'UNet2DConditionModel'}", "block_out_channels" },
    { "{'_class_name':'SD3Transformer2DModel','num_attention_heads':2,'attention_head_dim':4,'sample_size':5}",
      "sample_size" },
};

START_TEST(faults)
{
    posenc_error err = { 0 };
    char *config = quoted(bad[_i].config), text[1024], *out;
    posenc_status st = resolve(config, strlen(config), &out, &err);
    ck_assert_msg(st == PE_INVALID, "%s: %d", config, (int)st);
    bool named = false;
    for (unsigned i = 0; i < err.n; i++)
        named |= !strcmp(err.fault[i].field, bad[_i].field);
    ck_assert_msg(named, "%s: %s", config, posenc_error_text(&err, text, sizeof text));
    free(config);
}
END_TEST

START_TEST(all_faults_at_once)
{
    static const char config[] = "{\"model_type\":\"llama\",\"head_dim\":-1,\"rope_theta\":0,\"rope_scaling\":{\"type\":"
                                 "\"linear\",\"factor\":2}}";
    posenc_error err = { 0 };
    char *out;
    ck_assert_int_eq(resolve(config, sizeof config - 1, &out, &err), PE_INVALID);
    ck_assert_uint_eq(err.n, 2);
}
END_TEST

START_TEST(what_was_given_is_quoted)
{
    static const char config[] = "{\"model_type\":\"llama\",\"rope_theta\":  -Infinity}";
    posenc_error err = { 0 };
    char *out;
    ck_assert_int_eq(resolve(config, sizeof config - 1, &out, &err), PE_INVALID);
    ck_assert_str_eq(err.fault[0].value, "-Infinity");
}
END_TEST

/* A document cut anywhere is refused at "$", byte by byte; with bytes changed it never does harm. */
START_TEST(cut_and_changed)
{
    char *config = quoted(
        "{'model_type':'qwen2_vl','text_config':{'rope_scaling':{'type':'mrope','mrope_section':[16,24,24],"
        "'x':NaN}},'vision_config':{'a':[1,2,{'b':null}]},'layer_types':['full_attention']}");
    size_t n = strlen(config);
    for (size_t i = 0; i < n; i++) {
        posenc_error err = { 0 };
        char *out;
        ck_assert_int_eq(resolve(config, i, &out, &err), PE_INVALID);
        ck_assert_str_eq(err.fault[0].field, "$");
    }
    uint32_t seed = 7;
    for (int k = 0; k < 20000; k++) {
        posenc_error err = { 0 };
        char *out, *other = strdup(config);
        ck_assert_ptr_nonnull(other);
        for (int e = 0; e < 2; e++) {
            seed = seed * 1664525 + 1013904223;
            size_t at = seed >> 8;
            seed = seed * 1664525 + 1013904223;
            other[at % n] = "{}[]\",:0123truefalsnN\\- .e\x80"[(seed >> 8) % 28];
        }
        posenc_status st = resolve(other, n, &out, &err);
        ck_assert(st == err.status && (st == PE_OK) == (out != NULL));
        free(out);
        free(other);
    }
    free(config);
}
END_TEST

START_TEST(limits)
{
    enum { N = (2 << 20) + 1 };
    posenc_error err = { 0 };
    char *out, *s = malloc(N);
    ck_assert_ptr_nonnull(s);
    memset(s, ' ', N);
    memcpy(s, "{}", 2);
    ck_assert_int_eq(resolve(s, N, &out, &err), PE_LIMIT);
    ck_assert_str_eq(err.fault[0].field, "$");
    free(s);
    char deep[200];
    for (int i = 0; i < 40; i++)
        memcpy(deep + 5 * i, "{\"a\":", 5);
    err = (posenc_error){ 0 };
    ck_assert_int_eq(resolve(deep, sizeof deep, &out, &err), PE_LIMIT);
}
END_TEST

/* {"PART":INNER,...} of the parts that a composite may have. */
static char *composite(const char *inner)
{
    static const char *const parts[] = { "text_config",   "language_config", "llm_config",    "decoder",
                                         "encoder",       "text_encoder",    "vision_config", "audio_config",
                                         "speech_config", "audio_encoder",   "thinker_config" };
    char *s = malloc(12 * (strlen(inner) + 30)), *p = s;
    ck_assert_ptr_nonnull(s);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        p += sprintf(p, "%c\"%s\":%s", i ? ',' : '{', parts[i], inner);
    strcpy(p, "}");
    return s;
}

START_TEST(towers_are_counted)
{
    posenc_error err = { 0 };
    char *one = composite("{\"model_type\":\"llama\"}"), *two = composite(one), *three = composite(two), *out;
    ck_assert_int_eq(resolve(one, strlen(one), &out, &err), PE_OK);
    free(out);
    ck_assert_int_eq(resolve(three, strlen(three), &out, &err), PE_LIMIT); /* 1,331 of them */
    ck_assert_int_eq(err.n, 1);
    ck_assert_str_eq(err.fault[0].reason, "LIMIT_EXCEEDED");
    free(one);
    free(two);
    free(three);
}
END_TEST

/* What is quoted from a configuration stays UTF-8 in one line, however long it is; nobody reads 1,000 warnings. */
START_TEST(warnings_are_lines)
{
    for (int shift = 0; shift < 3; shift++) {
        char text[8000], *p = text;
        p += sprintf(p, "{\"model_type\":\"llama\",\"vision_config\":{\"model_type\":\"%.*s", shift, "xx");
        for (int i = 0; i < 400; i++)
            p += sprintf(p, "\xe2\x82\xac");
        p += sprintf(p, "\"},\"%.*s", shift, "xx");
        for (int i = 0; i < 400; i++)
            p += sprintf(p, "\xe2\x82\xac");
        sprintf(p, "\":{\"model_type\":\"\",\"hidden_size\":1},\"audio_config\":{\"model_type\":\"a\\r\\nb\"}}");
        json_t *o = answer_of(text); /* jansson refuses what is not UTF-8 */
        const json_t *list = json_object_get(o, "warnings");
        ck_assert_uint_ge(json_array_size(list), 3);
        for (size_t i = 0; i < json_array_size(list); i++)
            ck_assert_ptr_null(strpbrk(json_string_value(json_array_get(list, i)), "\r\n"));
        json_decref(o);
    }
    char *many = malloc(60000), *p = many + sprintf(many, "{\"model_type\":\"llama\"");
    for (int i = 0; i < 1000; i++)
        p += sprintf(p, ",\"%d\":{\"model_type\":\"\",\"hidden_size\":1}", i);
    strcpy(p, "}");
    json_t *o = answer_of(many);
    const json_t *list = json_object_get(o, "warnings");
    ck_assert_uint_le(json_array_size(list), 33);
    ck_assert_str_eq(json_string_value(json_array_get(list, json_array_size(list) - 1)), "further warnings are left out");
    json_decref(o);
    free(many);
}
END_TEST

Suite *resolve_suite(void);
Suite *resolve_suite(void)
{
    Suite *s = suite_create("resolve");
    TCase *t = tcase_create("resolve");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, schemes, 0, (int)(sizeof good / sizeof good[0]));
    tcase_add_loop_test(t, requests_are_accepted, 0, (int)(sizeof good / sizeof good[0]));
    tcase_add_test(t, widths_survive_as_shares);
    tcase_add_test(t, layers_are_listed);
    tcase_add_test(t, defaults_are_told);
    tcase_add_test(t, unknown_types);
    tcase_add_test(t, python_numbers);
    tcase_add_loop_test(t, faults, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, all_faults_at_once);
    tcase_add_test(t, what_was_given_is_quoted);
    tcase_add_test(t, cut_and_changed);
    tcase_add_test(t, limits);
    tcase_add_test(t, towers_are_counted);
    tcase_add_test(t, warnings_are_lines);
    suite_add_tcase(s, t);
    return s;
}
