// planning.h - inside engine/plan: the device that is planned for, and what may be taken of it.
#ifndef FT_PLAN_PLANNING_H
#define FT_PLAN_PLANNING_H

#include "engine/plan/plan.h"
#include "engine/train/room/room.h"
#include "kernels/devices/devices.h"

ft_status ft_planning_look(const ft_config *config, const ft_plan_request *request, ft_device_facts *facts);
// plan->budget_bytes and graph_bytes: as a run finds it, or as somebody says who knows.
void ft_planning_budget(const ft_config *config, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan);
// Refused before anything is read, as a run is: what can never be on such a device.
ft_status ft_planning_check(const ft_config *config, const ft_device_facts *facts);
// Seeds tell runs apart by the order of the texts alone: without texts, or with an order of its own, all are planned alike.
bool ft_planning_every_seed(const ft_config *config, bool with_data);
bool ft_planning_supported(const ft_target *target); // do the kernels run there?
// What was asked to lie on the host is more than there is of it; what autofit puts there does fit.
bool ft_planning_host_short(const ft_config *config, const ft_plan_request *request, const ft_target *target, size_t pinned, size_t host);

#endif
