/* test_vit_resize_naflex.c - each image is vit_resize's grid, rows behind it repeat row 0; bad input. */
#include "ask.h"

#define POSEMB "posemb=[[[1,-2],[3,0.5],[2,7]],[[4,4],[-1,0],[0.25,9]],[[5,-5],[8,1],[2,2]]]"

START_TEST(images)
{
    static const char *const options[] = { "&interpolation=bilinear&antialias=true",
                                           "&interpolation=bilinear&antialias=false",
                                           "&interpolation=bicubic&antialias=true",
                                           "&interpolation=bicubic&antialias=false" };
    static const int sizes[][2] = { { 2, 4 }, { 5, 2 }, { 1, 1 }, { 3, 3 } };
    char query[300];
    snprintf(query, sizeof query, POSEMB "&spatial_shapes=[[2,4],[5,2],[1,1],[3,3]]&max_length=12%s", options[_i]);
    posenc_answer a = ask("vit_resize_naflex", query);
    ck_assert(a.result.tensor[0].shape[0] == 4 && a.result.tensor[0].shape[1] == 12 && a.result.tensor[0].shape[2] == 2);
    for (int b = 0; b < 4; b++) {
        const int n = sizes[b][0] * sizes[b][1];
        snprintf(query, sizeof query, POSEMB "&new_size=%d,%d%s", sizes[b][0], sizes[b][1], options[_i]);
        posenc_answer one = ask("vit_resize", query);
        for (int i = 0; i < 12; i++)
            for (int c = 0; c < 2; c++)
                ck_assert(at(&a, (b * 12 + i) * 2 + c) == at(&one, (i < n ? i : 0) * 2 + c));
        posenc_answer_fini(&one);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(defaults)
{
    posenc_answer a = ask("vit_resize_naflex", POSEMB "&spatial_shapes=[[2,4],[5,2]]"),
                  b = ask("vit_resize_naflex",
                          POSEMB "&spatial_shapes=[[2,4],[5,2]]&max_length=10&antialias=true&interpolation=bilinear");
    ck_assert_int_eq(a.result.tensor[0].shape[1], 10);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "spatial_shapes=[[1,1]]", "posemb" },
    { POSEMB, "spatial_shapes" },
    { POSEMB "&spatial_shapes=[1,1]", "spatial_shapes" },
    { POSEMB "&spatial_shapes=[[1,1,1]]", "spatial_shapes" },
    { POSEMB "&spatial_shapes=[[1,1],[2,0]]", "spatial_shapes[1][1]" },
    { POSEMB "&spatial_shapes=[[1,1],[2.5,1]]", "spatial_shapes[1][0]" },
    { POSEMB "&spatial_shapes=[[2,2],[3,4]]&max_length=11", "max_length" },
    { POSEMB "&spatial_shapes=[[2,2]]&max_length=-1", "max_length" },
    { POSEMB "&spatial_shapes=[[2,2]]&interpolation=nearest", "interpolation" },
    { "posemb=[[1,2],[3,4]]&spatial_shapes=[[2,2]]", "posemb" },
    { "posemb=[[[1],[65505]]]&spatial_shapes=[[2,2]]&dtype=float16", "posemb[0][1][0]" },
};

START_TEST(bad_input) { refuses("vit_resize_naflex", &bad[_i]); }
END_TEST

Suite *vit_resize_naflex_suite(void);
Suite *vit_resize_naflex_suite(void)
{
    Suite *s = suite_create("vit_resize_naflex");
    TCase *t = tcase_create("vit_resize_naflex");
    tcase_add_loop_test(t, images, 0, 4);
    tcase_add_test(t, defaults);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
