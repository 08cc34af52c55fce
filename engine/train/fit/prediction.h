// prediction.h - the memory of who computes with a saved model - an evaluation, predictions, a merge - known before its weights are read, as
// forecast.h has it of a run: rehearsed on a plan device, judged with the whole process, reserved.
#ifndef FT_PREDICTION_H
#define FT_PREDICTION_H

#include "engine/generate/generator.h"
#include "engine/train/room/room.h"

typedef struct ft_prediction_work {
    const ft_model_config *model;
    int32_t labels;
    ft_loss loss;
    const ft_dataset *data; // NULL: they come a piece after the other, and every text may be as long as max_length
    int max_length;
    bool by_row;            // of every text all rows may be read
    bool rows;              // what comes out of the layers is wanted, and not logits
    ft_generator_sizes generator; // texts are gone on with, behind a pass over `data` or, without data, alone; slots are lowered as max_tokens is. slots 0: no
    bool computes;          // else weights are read and written alone
    ft_batch_limits limits; // max_tokens, where it is set, is lowered under memory.on_oom = ladder to what fits: logits do not depend on it
    ft_job_held held;
    size_t host;            // that the work takes beside the device
    size_t files;           // bytes that are written
    size_t mapped;          // of the files of weights
} ft_prediction_work;

// Of a room with config, device and memory: fills room->planned and room->host, and `capacity` with the largest micro-batch. FT_NO_MEMORY, and
// room->refusal, with the name of the limit that does not hold it.
ft_status ft_prediction_forecast(ft_room *room, ft_prediction_work *work, ft_capacity *capacity);

#endif
