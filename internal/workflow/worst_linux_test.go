package workflow_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/workflow"
)

const (
	worstMemory = 100 << 20       // bytes, of a whole process that reads one file
	worstTime   = 3 * time.Second // of the processors, however busy they are
)

// worst are texts that cost as much as their kind can. Each grows with n, so
// that the bounds decide how far it gets.
var worst = map[string]func(n int) string{
	"scalars":        func(n int) string { return "commands: [" + strings.Repeat("a,", n) + "a]" },
	"empty maps":     func(n int) string { return "commands: [" + strings.Repeat("{},", n) + "{}]" },
	"steps":          func(n int) string { return strings.Repeat("- shell: a\n", n) },
	"agents' steps":  func(n int) string { return strings.Repeat("- a\n", n) },
	"unknown keys":   func(n int) string { return lines(n, "key%d: v\n") },
	"unknown names":  func(n int) string { return lines(n, "- {shell: 'a ${who%d.x}', when: 'b%d.c'}\n") },
	"variables":      func(n int) string { return "- shell: |\n    " + strings.Repeat("$a", n) + "\n" },
	"references":     func(n int) string { return "- shell: |\n    " + strings.Repeat("${a.b}", n) + "\n" },
	"filters":        func(n int) string { return "- shell: |\n    " + strings.Repeat("${a|b}", n) + "\n" },
	"filters in one": func(n int) string { return "- shell: |\n    ${a" + strings.Repeat("|b", n) + "}\n" },
	"defaults": func(n int) string {
		return "- shell: |\n    " + strings.Repeat("${a:-", n) + strings.Repeat("}", n) + "\n"
	},
	"conditions":  func(n int) string { return lines(n/100, "- {shell: a, when: '"+strings.Repeat("a&&", 100)+"b'}\n") },
	"text":        func(n int) string { return "- shell: |\n    " + strings.Repeat("x", 8*n) + "\n" },
	"long key":    func(n int) string { return "? " + strings.Repeat("k", 8*n) + "\n: v\n" },
	"long keys":   func(n int) string { return lines(n/2000, "? "+strings.Repeat("k", 8000)+"%d\n: v\n") },
	"deep lists":  func(n int) string { return strings.Repeat("[", n) },
	"deep dashes": func(n int) string { return strings.Repeat("- ", n) + "a" },
	"deep maps":   func(n int) string { return strings.Repeat("{a: ", n) },
	"deep steps": func(n int) string {
		return "commands: " + strings.Repeat("[{shell: a, on_failure: ", 40) + "[" + strings.Repeat("{shell: a},", n) + "]" + strings.Repeat("}]", 40)
	},
	"aliases":      func(n int) string { return "a: &a [b]\nc: [" + strings.Repeat("*a,", n) + "]" },
	"alias towers": func(int) string { return bomb() },
	"alias texts": func(n int) string {
		return "x: &x '" + strings.Repeat("${a.b} ", n/4) + "'\ncommands: [" + strings.Repeat("{shell: *x},", n) + "]"
	},
	"alias steps": func(n int) string {
		return "x: &x [" + strings.Repeat("{shell: a},", n/10) + "]\ncommands:\n" + strings.Repeat("- {shell: a, on_failure: *x}\n", n/10)
	},
	"alias problems": func(n int) string {
		return "x: &x {? " + strings.Repeat("k", n) + " : v}\ncommands: [" + strings.Repeat("*x,", n) + "]"
	},
	"merge keys": func(n int) string {
		return "x: &x {" + strings.Repeat("a", 3) + lines(n/10, "%d: v, a") + ": v}\ny: [" + strings.Repeat("{<<: *x},", n/10) + "]"
	},
	"parameters": func(n int) string {
		return "parameters: {optional: [{name: p, default: '" + strings.Repeat("x", 4*n) + "'}]}\ncommands:\n" + strings.Repeat("- {shell: a, timeout: '${p}s'}\n", n/4)
	},
	"json":      func(n int) string { return `{"a": "` + strings.Repeat(`\ud83d\ude00`, n/2) + `"}` },
	"json list": func(n int) string { return `{"commands": [` + strings.Repeat(`{"shell":"a"},`, n) + `{"shell":"a"}]}` },
	"documents": func(n int) string { return strings.Repeat("---\na: b\n", n) },
	"comments":  func(n int) string { return strings.Repeat("# x\n", n) + "commands: [{shell: a}]" },
	"blanks":    func(n int) string { return strings.Repeat(" \n", n) + "commands: [{shell: a}" },
	"binary":    func(n int) string { return strings.Repeat("\x00\xff\t", n) },
	"anchors":   func(n int) string { return lines(n, "- &a%d b\n") },
	"syntax":    func(n int) string { return strings.Repeat("- shell: a\n", n) + "  - x: [" },
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if strings.Count(format, "%d") == 2 {
			fmt.Fprintf(&b, format, i, i)
		} else {
			fmt.Fprintf(&b, format, i)
		}
	}
	return b.String()
}

// TestWorst reads each of the texts in a process of its own, at several sizes,
// and asks what the process took.
func TestWorst(t *testing.T) {
	if name, n := os.Getenv("BIDE_WORST"), 0; name != "" {
		fmt.Sscan(os.Getenv("BIDE_WORST_N"), &n)
		src := []byte(worst[name](n))
		f, problems := workflow.Parse("flow.yml", src, workflow.Options{ReadFile: others.read, Unfilled: true})
		workflow.Formerly(f)
		for _, p := range problems {
			if len(p.Message)+len(p.Suggestion) > 2000 {
				t.Errorf("a message of %d bytes", len(p.Message))
			}
		}
		return
	}
	if raceEnabled {
		return // the detector takes many times the memory
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range worst {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sizes := []int{45_000} // just below the bound of what counts as marks
		if strings.HasPrefix(name, "alias") || strings.HasPrefix(name, "unknown") || name == "syntax" || strings.HasSuffix(name, "steps") {
			sizes = []int{12_000, 45_000} // several marks each
		}
		for _, n := range sizes {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, self, "-test.run=^TestWorst$")
			// A collector that runs beside the program lets it take as much as others leave
			// the collector no time for.
			cmd.Env = append(os.Environ(), "GODEBUG=gcstoptheworld=1", "BIDE_WORST="+name, fmt.Sprint("BIDE_WORST_N=", n))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s, %d: %v: %s", name, n, err, out)
				continue
			}
			memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
			took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			if os.Getenv("BIDE_WORST_SHOW") != "" {
				t.Logf("%-16s %7d: %3d MB, %s", name, n, memory>>20, took)
			}
			if memory > worstMemory || took > worstTime {
				t.Errorf("%s, %d: %d MB and %s", name, n, memory>>20, took)
			}
		}
	}
}
