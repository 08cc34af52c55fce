// Any bytes as a chat template: refused with a message, or it writes something of some messages.
#include "engine/chat/template.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *variables;
    if (variables == NULL)
        variables = json_pack("{s:[{s:s,s:s},{s:s,s:s,s:[{s:s,s:{s:i}}]}],s:n,s:b,s:s}", "messages", "role", "user", "content", "hi \xC3\xA9", "role",
                              "assistant", "content", "yes", "tool_calls", "name", "f", "arguments", "a", 1, "tools", "add_generation_prompt", 1,
                              "bos_token", "<s>");
    ft_chat_template *t;
    ft_chat_text text = {0};
    ft_error_clear();
    ft_status status = ft_chat_template_parse((const char *)data, size, "fuzz", &t);
    if (status == FT_OK) status = ft_chat_template_render(t, variables, &text);
    if (status != FT_OK && (status != FT_INVALID || ft_error_message()[0] == '\0')) abort(); // memory there is: nothing it is asked for is large
    ft_chat_text_free(&text);
    ft_chat_template_free(t);
    return 0;
}
