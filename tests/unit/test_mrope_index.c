/* test_mrope_index.c - positions of text, images and videos worked out by hand, as both generations of transformers. */
#include "ask.h"

Suite *mrope_index_suite(void);

static posenc_answer answer_of(const char *query) { return ask("mrope_index", query); }

/* Requests, and the digits of their time, height and width rows; '-': 10 or more, not compared; then the deltas. */
static const struct {
    const char *query, *rows[3];
    int64_t deltas[2];
} cases[] = {
    /* text alone */
    { "input_ids=[5,6,7]", { "012", "012", "012" }, { 0, 0 } },
    { "input_ids=[5,6,7]&attention_mask=[0,1,1]", { "101", "101", "101" }, { -1, 0 } },
    { "mm_token_type_ids=[0,0,0]&attention_mask=[0,1,1]&after_vision=hw_extent", { "001", "001", "001" }, { 0, 0 } },
    /* an image of 2 by 3 merged tokens between texts */
    { "mm_token_type_ids=[0,1,1,1,1,1,1,0,0]&image_grid_thw=[[1,4,6]]",
      { "011111145", "011122245", "012312345" },
      { -3, 0 } },
    { "mm_token_type_ids=[0,1,1,1,1,1,1,0,0]&image_grid_thw=[[1,4,6]]&after_vision=hw_extent",
      { "011111145", "011122245", "012312345" },
      { -3, 0 } },
    /* a video of three frames of 1 by 1: its time goes on to 2 frames * 2 positions */
    { "mm_token_type_ids=[2,2,2,0]&video_grid_thw=[[3,2,2]]&tokens_per_second=2", { "0245", "0005", "0005" }, { 2, 0 } },
    { "mm_token_type_ids=[2,2,2,0]&video_grid_thw=[[3,2,2]]&tokens_per_second=2&after_vision=hw_extent",
      { "0241", "0001", "0001" },
      { 1, 0 } },
    /* 1.75 seconds: whole seconds first, or the product */
    { "mm_token_type_ids=[2,2,2,0]&video_grid_thw=[[3,2,2]]&tokens_per_second=2&second_per_grid_ts=1.75",
      { "0245", "0005", "0005" },
      { 2, 0 } },
    { "mm_token_type_ids=[2,2,2,0]&video_grid_thw=[[3,2,2]]&tokens_per_second=2&second_per_grid_ts=1.75&"
      "second_per_grid_cast=float",
      { "0378", "0008", "0008" },
      { 5, 0 } },
    { "mm_token_type_ids=[2,2,2,0]&video_grid_thw=[[3,2,2]]&tokens_per_second=2&second_per_grid_ts=0.5",
      { "0001", "0001", "0001" },
      { -2, 0 } },
    /* Qwen3-VL: each frame for itself, text between */
    { "mm_token_type_ids=[0,2,0,2,0]&video_grid_thw=[[2,2,2]]&split_video_frames=true",
      { "01234", "01234", "01234" },
      { 0, 0 } },
    { "mm_token_type_ids=[2,2,0,2,2,0]&video_grid_thw=[[2,2,4]]&split_video_frames=true",
      { "002335", "002335", "012345" },
      { 0, 0 } },
    /* images next to each other, and of two sequences, are taken in turn */
    { "mm_token_type_ids=[[1,1,1],[1,1,0]]&image_grid_thw=[[1,2,2],[1,2,4],[1,4,2]]",
      { "011002", "011012", "012002" },
      { 0, 0 } },
    /* ids; each image begins after its start token; masked tokens in the middle do not break it */
    { "input_ids=[3,7,9,9,4]&image_token_id=9&vision_start_token_id=7&image_grid_thw=[[1,4,2]]",
      { "01224", "01234", "01224" },
      { 0, 0 } },
    { "input_ids=[3,7,9,0,9,4]&image_token_id=9&vision_start_token_id=7&image_grid_thw=[[1,4,2]]&attention_mask=[1,1,1,0,1,"
      "1]",
      { "012124", "012134", "012124" },
      { -1, 0 } },
    { "input_ids=[3,7,9,0,9,4]&image_token_id=9&image_grid_thw=[[1,4,2]]&attention_mask=[1,1,1,0,1,1]&masked_position=8&"
      "delta_length=unpadded",
      { "012824", "012834", "012824" },
      { 0, 0 } },
    { "input_ids=[9,8]&image_token_id=9&video_token_id=8&image_grid_thw=[[1,1,1]]&video_grid_thw=[[1,1,1]]&spatial_merge_"
      "size=1",
      { "01", "01", "01" },
      { 0, 0 } },
};

START_TEST(positions)
{
    posenc_answer a = answer_of(cases[_i].query);
    const posenc_tensor *t = &a.result.tensor[0];
    const int64_t *got = t->data, *deltas = a.result.tensor[1].data, n = posenc_tensor_count(t) / 3;
    ck_assert_int_eq(t->shape[0], 3);
    ck_assert_int_eq(t->rank, strstr(cases[_i].query, "[[1,1,1],[1,1,0]]&image") ? 3 : 2);
    for (int axis = 0; axis < 3; axis++) {
        ck_assert_int_eq(n, (int64_t)strlen(cases[_i].rows[axis]));
        for (int64_t i = 0; i < n; i++)
            ck_assert_msg(got[axis * n + i] == cases[_i].rows[axis][i] - '0', "%s: axis %d token %d is %d", cases[_i].query,
                          axis, (int)i, (int)got[axis * n + i]);
    }
    for (int64_t b = 0; b < a.result.tensor[1].shape[0]; b++)
        ck_assert_int_eq(deltas[b], cases[_i].deltas[b]);
    posenc_answer_fini(&a);
}
END_TEST

/* The two generations differ in what they do with padding; a key, which spells both, can be sent again. */
START_TEST(generations)
{
    posenc_answer a = answer_of("mm_token_type_ids=[0,0]&attention_mask=[0,1]"),
                  b = answer_of("mm_token_type_ids=[0,0]&attention_mask=[0,1]&masked_position=1&delta_length=padded"),
                  c = answer_of("mm_token_type_ids=[0,0]&after_vision=hw_extent&masked_position=0&delta_length=unpadded");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

static const refusal bad[] = {
    { "", "input_ids" },
    { "input_ids=[1]&mm_token_type_ids=[0]", "mm_token_type_ids" },
    { "mm_token_type_ids=[0,3]", "mm_token_type_ids[1]" },
    { "input_ids=[0.5]", "input_ids[0]" },
    { "input_ids=[1,2]&attention_mask=[1]", "attention_mask" },
    { "input_ids=[1,2]&attention_mask=[1,2]", "attention_mask[1]" },
    { "mm_token_type_ids=[0,1]", "mm_token_type_ids[1]" },
    { "mm_token_type_ids=[1,1,0]&image_grid_thw=[[1,4,4]]", "mm_token_type_ids[2]" },
    { "mm_token_type_ids=[0,1,1]&image_grid_thw=[[1,4,4]]", "mm_token_type_ids[2]" },
    { "mm_token_type_ids=[[0,1],[1,0]]&image_grid_thw=[[1,4,2]]", "mm_token_type_ids[0][1]" },
    { "mm_token_type_ids=[0,2]&image_grid_thw=[[1,2,2]]", "mm_token_type_ids[1]" },
    { "mm_token_type_ids=[0,0]&image_grid_thw=[[1,2,2]]", "image_grid_thw" },
    { "mm_token_type_ids=[1,0]&image_grid_thw=[[1,2,2],[1,2,2]]", "image_grid_thw" },
    { "mm_token_type_ids=[2,0]&video_grid_thw=[[2,2,2]]&split_video_frames=true", "video_grid_thw" },
    { "mm_token_type_ids=[1]&image_grid_thw=[[1,2]]", "image_grid_thw" },
    { "mm_token_type_ids=[1]&image_grid_thw=[[0,2,2]]", "image_grid_thw[0][0]" },
    { "mm_token_type_ids=[1]&image_grid_thw=[[1,2,3]]", "image_grid_thw[0][2]" },
    { "mm_token_type_ids=[1]&image_grid_thw=[[1,2,2]]&image_token_id=9", "image_token_id" },
    { "input_ids=[9]&image_grid_thw=[[1,2,2]]", "image_token_id" },
    { "input_ids=[9]&image_grid_thw=[[1,2,2]]&image_token_id=9&video_token_id=9", "video_token_id" },
    { "input_ids=[9]&image_grid_thw=[[1,2,2]]&image_token_id=9&vision_start_token_id=7", "input_ids[0]" },
    { "input_ids=[5,9]&image_grid_thw=[[1,2,2]]&image_token_id=9&vision_start_token_id=7", "input_ids[1]" },
    { "mm_token_type_ids=[0]&second_per_grid_ts=1", "second_per_grid_ts" },
    { "mm_token_type_ids=[2]&video_grid_thw=[[1,2,2]]&second_per_grid_ts=1,2", "second_per_grid_ts" },
    { "mm_token_type_ids=[2]&video_grid_thw=[[1,2,2]]&second_per_grid_ts=-1", "second_per_grid_ts[0]" },
    { "mm_token_type_ids=[2]&video_grid_thw=[[1,2,2]]&second_per_grid_cast=float", "second_per_grid_cast" },
    { "mm_token_type_ids=[2]&video_grid_thw=[[1,2,2]]&second_per_grid_ts=1&split_video_frames=true", "second_per_grid_ts" },
    { "mm_token_type_ids=[0]&split_video_frames=true", "split_video_frames" },
    { "mm_token_type_ids=[0]&tokens_per_second=0", "tokens_per_second" },
    { "mm_token_type_ids=[0]&masked_position=3", "masked_position" },
    { "mm_token_type_ids=[0]&delta_length=unpadded", "delta_length" },
    { "mm_token_type_ids=[0]&after_vision=max", "after_vision" },
    { "mm_token_type_ids=[0]&position_ids=[0]", "position_ids" },
};

START_TEST(bad_input) { refuses("mrope_index", &bad[_i]); }
END_TEST

/* Time runs away with 10^6 seconds of 10^6 positions each; sequences without tokens cost nothing. */
START_TEST(far_and_empty)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char query[9000] = "video_grid_thw=[[2,2,2]]&second_per_grid_ts=1e6&tokens_per_second=1000000&mm_token_type_ids=[2,2]";
    a = answer_of(query);
    ck_assert(((const int64_t *)a.result.tensor[0].data)[1] == 1000000000000);
    posenc_answer_fini(&a);
    snprintf(query, sizeof query,
             "video_grid_thw=[[10000,2,2]]&second_per_grid_ts=1e6&tokens_per_second=1000000&"
             "mm_token_type_ids=[2]");
    ck_assert_int_eq(posenc_encode("mrope_index", query, NULL, &a, NULL, &err), PE_LIMIT);
    ck_assert_str_eq(err.fault[0].field, "second_per_grid_ts");

    posenc_request r;
    posenc_arena *arena = posenc_arena_new(1 << 20);
    posenc_tensor none = {
        .name = "mm_token_type_ids", .dtype = PE_int64, .rank = 2, .shape = { 1LL << 40, 0 }, .data = &r
    };
    err = (posenc_error){ 0 };
    ck_assert_int_eq(posenc_request_init(&r, "mrope_index", arena, &err), PE_OK);
    const posenc_table *t = &r.encoding->table;
    posenc_set_tensor(t, posenc_row(t, "mm_token_type_ids"), r.params, &none, &err);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    ck_assert_uint_eq(r.size, 8ULL << 40); /* deltas; refused by whoever has less memory */
    posenc_arena_free(arena);
}
END_TEST

Suite *mrope_index_suite(void)
{
    Suite *s = suite_create("mrope_index");
    TCase *t = tcase_create("mrope_index");
    tcase_add_loop_test(t, positions, 0, (int)LEN(cases));
    tcase_add_test(t, generations);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, far_and_empty);
    suite_add_tcase(s, t);
    return s;
}
