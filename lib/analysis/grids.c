#include "analysis/identify.h"
void pe_find_grids(pe_search *s, const pe_view *v)
{
    (void)s;
    (void)v;
}
