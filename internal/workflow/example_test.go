package workflow_test

import (
	"fmt"
	"os"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// All problems of a file come at once, each with its place and what to do.
func ExampleParse() {
	src := []byte(`commands:
  - shell: make test
    timeuot: 30s
    retry_config: {attempts: 0, backoff: fibonaci}
`)
	_, problems := workflow.Parse("build.yml", src, workflow.Options{})
	for _, p := range problems {
		diag.Print(os.Stdout, p, src, diag.Style{})
	}
	// Output:
	// build.yml:3:5: warning: unknown key "timeuot" in a step; it is ignored [unknown-key]
	//         timeuot: 30s
	//         ^^^^^^^
	//   did you mean "timeout"?
	// build.yml:4:30: error: attempts is 0; it must be 1 or more [out-of-range]
	//         retry_config: {attempts: 0, backoff: fibonaci}
	//                                  ^
	//   it counts all runs: 1 means no retry, 3 means two retries
	// build.yml:4:42: error: there is no backoff "fibonaci" [bad-value]
	//         retry_config: {attempts: 0, backoff: fibonaci}
	//                                              ^^^^^^^^
	//   did you mean "fibonacci"? (one of fixed, linear, exponential, fibonacci, custom)
}

// Walk visits the steps of every place, with their addresses.
func ExampleWalk() {
	f, _ := workflow.Parse("build.yml", []byte(`commands:
  - shell: make test
    on_failure: {claude: /repair}
  - foreach: {items: [a, b], do: [{shell: 'echo ${item}'}]}
`), workflow.Options{})
	workflow.Walk(f, func(s *workflow.Step) {
		fmt.Println(s.Path, s.Action.Kind())
	})
	// Output:
	// commands[0] shell
	// commands[0].on_failure[0] claude
	// commands[1] foreach
	// commands[1].do[0] shell
}

// Formerly lists what a file asked for without getting it.
func ExampleFormerly() {
	f, _ := workflow.Parse("build.yml", []byte("commands: [{shell: make, timeout: 60}]"), workflow.Options{})
	for _, p := range workflow.Formerly(f) {
		fmt.Println(p.Pos, p.Message)
	}
	// Output:
	// build.yml:1:26 "timeout" had no effect in this place; now it has: of one attempt; a span of time: 500ms, 30s, 1h30m; a bare number is in seconds
}
