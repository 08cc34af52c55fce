// queries.h - how good the order of a query's documents is, whatever order they come in.
//
// Documents of equal scores share what they come to, so that no figure depends on the order of a file: nDCG takes the mean over their orders
// (scikit-learn's ndcg_score), the others give each of them the last of their places (scikit-learn's label_ranking_average_precision_score).
// A document is relevant where its relevance is above 0; nDCG's gain is the relevance itself. A query without relevant documents has 0
// everywhere.
#ifndef FT_QUERIES_H
#define FT_QUERIES_H

#include <stdint.h>

typedef enum ft_query_figure {
    FT_QUERY_MRR, // 1 by the place of the first relevant document
    FT_QUERY_MRR_10, // of those behind place 10: 0
    FT_QUERY_MAP,
    FT_QUERY_NDCG,
    FT_QUERY_NDCG_5,
    FT_QUERY_NDCG_10,
    FT_QUERY_RECALL_1, // of the relevant documents the share in so many first places
    FT_QUERY_RECALL_5,
    FT_QUERY_RECALL_10,
    FT_QUERY_RECALL_100,
    FT_QUERY_FIGURES
} ft_query_figure;

// order [n] is written: the documents from the highest score, equal ones in their order.
void ft_query_order(const float *score, int64_t n, int32_t *order);
// figure [FT_QUERY_FIGURES] of n >= 1 documents; order [n] is room. Returns how many of them are relevant.
int64_t ft_query_judge(const float *score, const float *relevance, int64_t n, int32_t *order, double *figure);

#endif
