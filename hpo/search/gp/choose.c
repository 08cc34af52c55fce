#include "hpo/search/gp/choose.h"

#include <stdint.h>
#include <stdlib.h>

int ft_gp_by_loss(const void *a, const void *b) {
    const ft_gp_ranked *x = a, *y = b;
    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

int ft_gp_choose(const double *loss, int count, int most, ft_gp_ranked *scratch, bool *mark, int *chosen) {
    int made = 0;
    for (int i = 0; i < count; i++)
        scratch[i] = (ft_gp_ranked){loss != NULL ? loss[i] : 0, i}, mark[i] = count <= most;
    if (count > most) {
        const int better = loss != NULL ? most / 2 : 0;
        if (loss != NULL) qsort(scratch, (size_t)count, sizeof *scratch, ft_gp_by_loss);
        for (int i = 0; i < better; i++)
            mark[scratch[i].at] = true;
        int rest = 0, wanted = most - better, others = count - better;
        for (int i = 0; i < count; i++) {
            if (mark[i]) continue;
            mark[i] = (int64_t)(rest + 1) * wanted / others > (int64_t)rest * wanted / others;
            rest++;
        }
    }
    for (int i = 0; i < count; i++)
        if (mark[i]) chosen[made++] = i;
    return made;
}
