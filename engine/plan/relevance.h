// relevance.h - what an option has to do with the memory of a run, for who plans many runs and need not plan those anew that differ
// in nothing that counts.
#ifndef FT_PLAN_RELEVANCE_H
#define FT_PLAN_RELEVANCE_H

typedef enum ft_relevance {
    FT_RELEVANT = 0,           // every value may be another plan; so of all that nobody has looked at
    FT_RELEVANT_ZERO,          // whether it is 0 (a dropout that drops nothing is no op)
    FT_RELEVANT_WITH_TEXTS,    // says which texts come together, and without texts nothing
    FT_RELEVANT_ZERO_OF_TEXTS, // with texts, whether it is 0
    FT_IRRELEVANT              // changes no byte
} ft_relevance;

// option: of a run, by number (engine/config/options.h). tests/plan holds the irrelevant ones to it.
ft_relevance ft_option_relevance(int option);

#endif
