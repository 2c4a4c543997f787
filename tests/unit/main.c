/* main.c - runs every suite: tests/unit/test_NAME.c holds NAME_suite, the Makefile lists the folder.
 *
 * usage: unit [SUITE]...   CK_FORK=no to stay in one process (gdb, sanitizers)
 *        unit --list       the names of the suites, a line each */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUITE(name) Suite *name##_suite(void);
#include "suites.h"
#undef SUITE

static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {
#define SUITE(name) { #name, name##_suite },
#include "suites.h"
#undef SUITE
};

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++)
            puts(suites[i].name);
        return EXIT_SUCCESS;
    }
    SRunner *runner = srunner_create(NULL);
    int n = 0;
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        int wanted = argc == 1;
        for (int k = 1; k < argc; k++)
            wanted |= !strcmp(argv[k], suites[i].name);
        if (wanted) {
            srunner_add_suite(runner, suites[i].make());
            n++;
        }
    }
    if (!n) {
        fprintf(stderr, "unit: no suite of that name\n");
        return 2;
    }
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
