/* test_simd.c - whole requests by every path of the kernels: the same bytes; and that no kernel is left out. */
#include "ask.h"
#include "simd.h"

/* What the linker makes of the section that PE_KERNEL writes to. */
extern const char *const __start_pe_kernels[], *const __stop_pe_kernels[];

/* float16 and bfloat16: 1, -2, 0.5, a subnormal, and so on: 2 x 10. */
#define HALVES(type)                                     \
    "{\"dtype\":\"" type "\",\"shape\":[2,10],\"data\":" \
    "\"ADwAwAA4AQAANABEVTXNPAC8AAAAPADAADgBADQARAA1VTzNvAA8AA==\"}"
#define TABLE "\"table\":[[0.1,1,2,3,4,5,6,7,8,9.5],[1,0,-1,7,2,1e-3,1e3,4,5,6],[3,1,4,1,5,9,2,6,5,3]]"
#define HEADS \
    "\"q\":[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20],[0.1,0.2,0.3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,10,11]]"

/* A tree, two rings and nodes alone. */
#define GRAPH(nodes) \
    "\"graph\":{\"num_nodes\":" nodes ",\"edge_index\":[[0,1,2,3,4,5,6,7,8,9,10,0,4],[1,2,0,2,3,4,5,6,7,8,9,11,8]]}"

#define YARN "\"original_max_position_embeddings\":4096"

/* Eleven rings of six around a node: eigenvectors on one ring or two, and pivots that vanish there. */
#define RINGS                                                                                              \
    "\"graph\":{\"num_nodes\":67,\"edge_index\":[["                                                        \
    "1,2,3,4,5,6,0,7,8,9,10,11,12,0,13,14,15,16,17,18,0,19,20,21,22,23,24,0,25,26,27,28,29,30,0,31,32,33," \
    "34,35,36,0,37,38,39,40,41,42,0,43,44,45,46,47,48,0,49,50,51,52,53,54,0,55,56,57,58,59,60,0,61,62,63," \
    "64,65,66,0"                                                                                           \
    "],["                                                                                                  \
    "2,3,4,5,6,1,1,8,9,10,11,12,7,7,14,15,16,17,18,13,13,20,21,22,23,24,19,19,26,27,28,29,30,25,25,32,33," \
    "34,35,36,31,31,38,39,40,41,42,37,37,44,45,46,47,48,43,43,50,51,52,53,54,49,49,56,57,58,59,60,55,55,"  \
    "62,63,64,65,66,61,61"                                                                                 \
    "]]}"

/* Kernels that a request runs, as they stand in the folders; `dtype`: with each of them. */
static const struct {
    const char *kernels, *encoding, *json;
    bool dtypes;
} requests[] = {
    { "product sincos turn zip32 zip16 zipb16 zip", "sinusoidal",
      "\"embedding_dim\":86,\"num_positions\":200,\"offset\":-70", true },
    { "", "sinusoidal", "\"embedding_dim\":64,\"num_positions\":300,\"offset\":1000000,\"flip_sin_to_cos\":true", true },
    { "write32 write16 writeb16 three", "sinusoidal",
      "\"embedding_dim\":64,\"num_positions\":300,\"offset\":43210987,\"layout\":\"split\"", true },
    { "float32 float16 bfloat16", "sinusoidal",
      "\"embedding_dim\":22,\"positions\":[0,1,0.5,-3,7e6,9007199254740992],\"scale_output\":3", true },
    { "", "rope", "\"head_dim\":64,\"num_positions\":150,\"rope_theta\":500000", true },
    { "", "rope",
      "\"head_dim\":112,\"num_positions\":150,\"layout\":\"interleaved\",\"rope_type\":\"yarn\",\"factor\":4," YARN, true },
    { "", "sinusoidal", "\"embedding_dim\":70,\"num_positions\":150,\"scale_output\":0.12", true },
    { "waves", "timestep", "\"embedding_dim\":38,\"timesteps\":[0,0.5,1,999.25,1e9,-4]", true },
    { "turns", "random_fourier", "\"coords\":[[0.1,0.2],[0.5,0.9],[-1,3]],\"m\":19,\"sigma\":10,\"seed\":1", true },
    { "weigh below", "learned_extend", TABLE ",\"new_length\":8,\"method\":\"linear\"", true },
    { "turn_pairs within", "rope_apply", HEADS ",\"head_dim\":20,\"num_positions\":2", true },
    { "", "rope_apply", HEADS ",\"head_dim\":20,\"num_positions\":2,\"compute_dtype\":\"float32\"", false },
    { "add_scaled squares", "combine",
      "\"embedding\":[[1,2,3,4,5,6,7,8,9,10.1]],\"encoding\":[[3,1,4,1,5,9,2,6,5,3]],\"match_rms\":true", true },
    { "widen16", "combine", "\"embedding\":" HALVES("float16") ",\"encoding\":" HALVES("float16"), true },
    { "widenb16", "combine", "\"embedding\":" HALVES("bfloat16") ",\"encoding\":" HALVES("bfloat16"), false },
    { "widen", "combine",
      "\"embedding\":{\"dtype\":\"float32\",\"shape\":[10],\"data\":"
      "\"AACAPwAAAEAAAEBAAACAQAAAoEAAAMBAAADgQAAAAEEAABBBzczMPQ==\"},"
      "\"encoding\":[1,2,3,4,5,6,7,8,9,10]",
      true },
    { "in_bits pairs widen_steps", "shortest_path", GRAPH("17") ",\"distance_dtype\":\"uint8\"", false },
    { "wide", "shortest_path", GRAPH("130"), false },
    { "reduce grid bisect iterate restore settle extent scale extract gram share", "laplacian", GRAPH("17") ",\"k\":3",
      true },
    { "narrow prove refine draw mix polish", "laplacian", RINGS ",\"k\":9", false },
    { "", "laplacian", GRAPH("12") ",\"k\":12,\"normalization\":\"none\"", false },
    { "", "heat_kernel", GRAPH("12") ",\"kernel_times\":[0.5,3]", false },
    { "take_out put_back gather", "electrostatic", GRAPH("17"), false },
    { "", "electrostatic", RINGS ",\"self_loops\":\"keep\"", false },
    { "step", "random_walk", GRAPH("17") ",\"ksteps\":[1,2,5,8]", true },
    { "log1p", "kerple", "\"variant\":\"log\",\"query_length\":21,\"key_length\":33,\"p\":[0.5,1.5],\"a\":[0.2,0.9]", true },
};

static void same_bytes(const posenc_answer *a, const posenc_answer *b, pe_path path, const char *encoding, const char *json)
{
    ck_assert_int_eq(a->result.ntensors, b->result.ntensors);
    for (int i = 0; i < a->result.ntensors; i++) {
        const posenc_tensor *x = &a->result.tensor[i], *y = &b->result.tensor[i];
        ck_assert(posenc_tensor_size(x) == posenc_tensor_size(y));
        ck_assert_msg(!memcmp(x->data, y->data, posenc_tensor_size(x)), "%s differs by %s: %s %s", x->name, simd_names[path],
                      encoding, json);
    }
}

START_TEST(requests_by_every_path)
{
    static const char *const dtypes[] = { "float32", "float64", "float16", "bfloat16" };
    for (int d = 0; d < (requests[_i].dtypes ? 4 : 1); d++) {
        char json[2000];
        snprintf(json, sizeof json, "{%s,\"dtype\":\"%s\"}", requests[_i].json, dtypes[d]);
        simd_choose(PE_PATH_BASE);
        posenc_answer want = ask_json(requests[_i].encoding, json);
        for (pe_path path = PE_PATH_BASE + 1; path <= simd_widest(); path++) {
            simd_choose(path);
            posenc_answer got = ask_json(requests[_i].encoding, json);
            same_bytes(&want, &got, path, requests[_i].encoding, json);
            posenc_answer_fini(&got);
        }
        posenc_answer_fini(&want);
    }
    simd_choose(simd_widest());
}
END_TEST

/* Reports: the text is the same. */
static const char report_kernels[] = "dot distance add_times";

START_TEST(reports_by_every_path)
{
    static const char query[] =
        "embedding_dim=46&num_positions=70&what=similarity,uniqueness,subspace,attention_probe,resolution";
    posenc_document want = { 0 }, got = { 0 };
    posenc_error err = { 0 };
    simd_choose(PE_PATH_BASE);
    ck_assert_int_eq(posenc_analyze("sinusoidal", query, NULL, PE_json, &want, NULL, &err), PE_OK);
    for (pe_path path = PE_PATH_BASE + 1; path <= simd_widest(); path++) {
        simd_choose(path);
        ck_assert_int_eq(posenc_analyze("sinusoidal", query, NULL, PE_json, &got, NULL, &err), PE_OK);
        ck_assert_uint_eq(got.npieces, want.npieces);
        for (size_t i = 0; i < want.npieces; i++) {
            ck_assert_uint_eq(got.piece[i].size, want.piece[i].size);
            ck_assert_mem_eq(got.piece[i].data, want.piece[i].data, (size_t)want.piece[i].size);
        }
        posenc_document_fini(&got);
    }
    posenc_document_fini(&want);
    simd_choose(simd_widest());
}
END_TEST

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

START_TEST(every_kernel_has_a_request)
{
    ck_assert(__stop_pe_kernels - __start_pe_kernels > 20);
    for (const char *const *k = __start_pe_kernels; k < __stop_pe_kernels; k++) {
        bool listed = has_word(report_kernels, *k);
        for (size_t i = 0; i < LEN(requests); i++)
            listed = listed || has_word(requests[i].kernels, *k);
        ck_assert_msg(listed, "no request of test_simd.c runs the kernel %s: add one that does", *k);
    }
}
END_TEST

START_TEST(what_was_not_run)
{
    for (pe_path path = simd_widest() + 1; path < PE_PATHS; path++)
        printf("simd: %s was not run: this CPU has it not\n", simd_names[path]);
}
END_TEST

Suite *simd_suite(void);
Suite *simd_suite(void)
{
    Suite *s = suite_create("simd");
    TCase *t = tcase_create("simd");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, requests_by_every_path, 0, LEN(requests));
    tcase_add_test(t, reports_by_every_path);
    tcase_add_test(t, every_kernel_has_a_request);
    tcase_add_test(t, what_was_not_run);
    suite_add_tcase(s, t);
    return s;
}
