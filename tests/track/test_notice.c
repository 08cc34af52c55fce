// engine/track/notice: what is posted, by whose address it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/track/notice.h"
#include "engine/track/web.h"

#include <stdlib.h>
#include <string.h>

static void forms(void **state) {
    static const struct {
        const char *url, *host;
        ft_notice_form form;
        const char *body; // NULL: all of the notice
    } cases[] = {
        {"https://hooks.slack.com/services/T0/B0/x", "hooks.slack.com", FT_NOTICE_SLACK, "{\"text\":\"a \\\"b\\\"\"}"},
        {"https://mattermost.example.org:8443/hooks/x", "mattermost.example.org:8443", FT_NOTICE_SLACK,
         "{\"text\":\"a \\\"b\\\"\"}"},
        {"https://discord.com/api/webhooks/1/x", "discord.com", FT_NOTICE_DISCORD, "{\"content\":\"a \\\"b\\\"\"}"},
        {"https://HOOKS.SLACK.COM", "HOOKS.SLACK.COM", FT_NOTICE_SLACK, "{\"text\":\"a \\\"b\\\"\"}"},
        {"https://ntfy.sh/topic", "ntfy.sh", FT_NOTICE_NTFY, "a \"b\""},
        {"http://ntfy.lan:8080/topic", "ntfy.lan:8080", FT_NOTICE_NTFY, "a \"b\""},
        {"https://x.webhook.office.com/webhookb2/x", "x.webhook.office.com", FT_NOTICE_TEAMS,
         "{\"type\":\"message\",\"attachments\":[{\"contentType\":\"application/"
         "vnd.microsoft.card.adaptive\",\"content\":{\"type\":"
         "\"AdaptiveCard\",\"version\":\"1.4\",\"body\":[{\"type\":\"TextBlock\",\"text\":\"a "
         "\\\"b\\\"\",\"wrap\":true}]}}]}"},
        {"https://name:word@example.org/a@b", "example.org", FT_NOTICE_JSON, NULL},
        {"https://example.org?x=hooks.slack.com", "example.org", FT_NOTICE_JSON, NULL},
        {"http://127.0.0.1:8000/hooks.slack.com", "127.0.0.1:8000", FT_NOTICE_JSON, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char host[200];
        json_t *notice = ft_notice("run.finished", "a \"b\"");
        assert_non_null(notice);
        assert_string_equal(ft_web_host(cases[i].url, host, sizeof host), cases[i].host);
        assert_true(ft_web_is_address(cases[i].url));
        assert_int_equal(ft_notice_form_of(cases[i].url), cases[i].form);
        char *body = ft_notice_body(notice, cases[i].form);
        assert_non_null(body);
        if (cases[i].body != NULL) {
            assert_string_equal(body, cases[i].body);
        } else {
            json_t *read = json_loads(body, 0, NULL);
            assert_true(json_equal(read, notice));
            json_decref(read);
        }
        free(body);
        json_decref(notice);
    }
}

// Discord takes 2,000 characters, and no half ones.
static void long_text(void **state) {
    char text[3001];
    for (size_t i = 0; i < 3000; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    text[3000] = '\0';
    json_t *notice = ft_notice("study.failed", text);
    char *body = ft_notice_body(notice, FT_NOTICE_DISCORD);
    json_t *read = json_loads(body, 0, NULL);
    assert_non_null(read);
    assert_int_equal(strlen(json_string_value(json_object_get(read, "content"))), 1998);
    json_decref(read);
    free(body);
    json_decref(notice);
}

static void no_addresses(void **state) {
    static const char *const bad[] = {"",          "ntfy.sh/x",  "ftp://a/b",
                                      "http://",   "https:///x", "http://:80/",
                                      "http://@a", "http://a b", "http://a\r\nX: y"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(ft_web_is_address(bad[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(long_text),
                                       cmocka_unit_test(no_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
