package workflow_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// What of same_error would do nothing, or not what it seems to, is told.
func TestSameErrorThatDoesNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{same_error: {probe: {initial_delay: 10m, max_delay: 1s}}}":                            "max_delay 1s is less than initial_delay 10m",
		"{same_error: {probe: {initial_delay: 20m}}}":                                           "max_delay 10m (the default) is less than initial_delay 20m",
		"{same_error: {probe: {delays: [1h]}}}":                                                 "max_delay 10m (the default) is less than 1h of delays",
		"{same_error: {probe: {increment: 5s}}}":                                                `"increment" has no effect`,
		"{same_error: {action: stop, on_hold: [{shell: a}]}}":                                   "on_hold has no effect with action: stop",
		"{same_error: {action: stop, max_hold: 1h}}":                                            "max_hold has no effect with action: stop",
		"{same_error: {count: 3}, max_failures: 2}":                                             "same_error has no effect: max_failures: 2 stops the map after 2 failed items, before 3 have failed alike",
		"{same_error: true, continue_on_failure: false}":                                        "same_error has no effect: continue_on_failure: false stops the map after 1 failed item",
		"{same_error: true, on_item_failure: stop}":                                             "same_error has no effect: on_item_failure: stop",
		"{same_error: {count: 3}, max_failures: 3}":                                             "",
		"{same_error: {count: 3}, max_failures: 2, retry_config: {attempts: 2}}":                "",
		"{same_error: {count: 1}, on_item_failure: stop}":                                       "",
		"{same_error: {count: 3, probe: {initial_delay: 10s, max_delay: 1m}}, max_failures: 9}": "",
		"{same_error: {probe: {backoff: linear, increment: 5s}, on_hold: [{shell: a}]}}":        "",
	} {
		_, problems := workflow.Parse("a.yml", []byte("map: {input: [1], agent_template: [{shell: a}]}\nerror_policy: "+text+"\n"), workflow.Options{})
		switch {
		case want == "" && len(problems) > 0:
			t.Errorf("%s: %v", text, problems)
		case want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), want)):
			t.Errorf("%s: %v, want %q", text, problems, want)
		}
	}
}
