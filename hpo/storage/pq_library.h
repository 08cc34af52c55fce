// pq_library.h - libpq, PostgreSQL's own client library, loaded when a study is kept in PostgreSQL and not before: it
// brings a dozen libraries along (TLS, Kerberos, LDAP), which would cost every other command 3 ms and 6 MiB.
#ifndef FT_HPO_STORAGE_PQ_LIBRARY_H
#define FT_HPO_STORAGE_PQ_LIBRARY_H

#include "base/status.h"

#include <libpq-fe.h>

#define FT_PQ_FUNCTIONS(X)                                                                                             \
    X(connectdbParams)                                                                                                 \
    X(pingParams) X(status) X(errorMessage) X(finish) X(socket) X(serverVersion) X(enterPipelineMode) X(pipelineSync)  \
        X(sendPrepare) X(sendQueryPrepared) X(sendQueryParams) X(getResult) X(clear) X(resultStatus)                   \
            X(resultErrorField) X(ntuples) X(getvalue) X(getisnull) X(getlength) X(cmdTuples) X(cmdStatus)             \
                X(consumeInput) X(setNoticeProcessor) X(conninfoParse) X(conninfoFree) X(freemem)

typedef struct ft_pq {
#define X(name) __typeof__(PQ##name) *name;
    FT_PQ_FUNCTIONS(X)
#undef X
} ft_pq;

// Loads it at the process's first call; *pq stays valid. FT_FAILED when it is not installed, or older than 14 (which
// can send many statements in one round trip).
ft_status ft_pq_load(const ft_pq **pq);

#endif
