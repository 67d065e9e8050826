package engine_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestCaptureFormats: how an output becomes a value.
func TestCaptureFormats(t *testing.T) {
	for _, row := range []struct{ shell, format, ref, want string }{
		{"echo ' a '; echo", "string", "<${v}>", "< a >"},
		{"echo a", "text", "${v}", "a"},
		{`echo '{"a": [1.0, {"b": null}], "c": "d"}'`, "json", "${v.a[0]} ${v.c} ${v.a[1].b}|", "1.0 d |"},
		{"echo '[1, 2]'", "json", "${v} ${v|length}", "1, 2 2"},
		{"printf 'a b\\r\\n\\nc\\n'", "lines", "${v|json}", `["a b","","c"]`},
		{"printf ''", "lines", "${v|json}", "[]"},
		{"echo 007.50", "number", "${v}", "007.50"},
		{"echo 10", "number", "${v|json}", "10"},
		{"echo -1.5e3", "number", "${v}", "-1.5e3"},
		{"echo TRUE", "boolean", "${v|json}", "true"},
		{"echo false", "boolean", "${v|json}", "false"},
		{"echo whatever", "boolean", "${v|json}", "true"},
	} {
		for _, key := range []string{"capture", "capture_output"} {
			t.Run(key+row.shell+row.format, func(t *testing.T) {
				t.Parallel()
				r := newBench(t).run("commands:\n- shell: |\n    " + row.shell + "\n  " + key + ": v\n  capture_format: " + row.format +
					"\n- write_file: {path: x, content: '" + row.ref + "'}\n- shell: cp x @EV@/x\n")
				if row.shell == "echo 007.50" { // not a number in JSON
					return
				}
				r.status(event.Succeeded)
				r.want("x", row.want)
			})
		}
	}
	for _, row := range []struct{ shell, format, why string }{
		{"echo no json", "json", "no JSON"}, {"echo ten", "number", "no number"}, {"true", "number", "no number"},
	} {
		r := newBench(t).run("commands:\n- shell: " + row.shell + "\n  capture: v\n  capture_format: " + row.format + "\n  retry: {attempts: 3, initial_delay: 1h}\n")
		r.status(event.Failed)
		if !strings.Contains(r.sum.Message, row.why) || !strings.Contains(r.sum.Message, "capture v") {
			t.Errorf("%s: the message is %q", row.shell, r.sum.Message)
		}
	}
}

// TestCaptureStreams: which parts of a result are kept.
func TestCaptureStreams(t *testing.T) {
	for streams, want := range map[string]string{
		"stdout":                         "out|err|3|false|d",
		"stderr":                         "err|err|3|false|d",
		"both":                           "out+err|err|3|false|d",
		"{stdout: true, stderr: true}":   "out|err|3|false|d",
		"{stdout: false, stderr: true}":  "err|err|3|false|d",
		"{exit_code: false}":             "out|err|${v.exit_code}|false|d",
		"{success: false}":               "out|err|3|${v.success}|d",
		"{duration: false}":              "out|err|3|false|-",
		"{stdout: false, stderr: false}": "|err|3|false|d",
	} {
		t.Run(streams, func(t *testing.T) {
			t.Parallel()
			r := newBench(t).run("commands:\n- shell: echo out; echo err >&2; exit 3\n  continue_on_error: true\n  capture: v\n  capture_streams: " + streams + `
- write_file: {path: x, content: '${v}|${v.stderr}|${v.exit_code}|${v.success}|${v.duration}'}
- shell: tr '\n' + < x | sed -e 's/|[0-9][0-9.]*$/|d/' -e 's/|\${v.duration}$/|-/' > @EV@/x
`)
			r.status(event.Succeeded)
			r.want("x", want)
		})
	}
}

// TestCaptureUsual: capture turned off, and the variables that are set without a capture.
func TestCaptureUsual(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: echo a
    capture_output: true
  - shell: echo "${shell.output} ${CAPTURED_OUTPUT} ${last.output} ${last.success}" > @EV@/x
  - shell: echo b
    capture_output: false
  - shell: echo "${shell.output} ${CAPTURED_OUTPUT}" > @EV@/y
`)
	r.status(event.Succeeded)
	r.want("x", "a a a true")
	if got := r.file("y"); strings.Contains(got, " b") {
		t.Errorf("capture_output: false captured: %q", got)
	}
}

// TestOutputFile: the file has the whole output, even if it is too large for a variable.
func TestOutputFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(`
commands:
  - shell: head -c 3000000 /dev/zero | tr '\0' 'x'
    output_file: deep/dir/big
    capture: big
  - shell: wc -c < deep/dir/big | tr -d ' ' > @EV@/size
  - shell: printf 'a\n\n'
    output_file: '${env.EV}/exact'
  - claude: /say an answer
    output_file: answer
  - shell: cat answer > @EV@/answer
  - write_file: {path: big.txt, content: '${big}'}
  - shell: wc -c < big.txt | tr -d ' ' > @EV@/bounded; grep -c 'left out' big.txt > @EV@/mark
`)
	r.status(event.Succeeded)
	r.want("size", "3000000")
	r.want("answer", "an answer")
	r.want("mark", "1")
	if n := r.file("bounded"); len(n) != 7 || n[0] != '1' {
		t.Errorf("the variable has %s bytes, want about 1 MiB", n)
	}
}

// TestOutputFileOfFailure: the file also has what a failed attempt printed. It has the
// output of the last attempt, and is empty if that printed nothing. A step that has not run
// leaves the file alone.
func TestOutputFileOfFailure(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - {shell: 'echo report; exit 1', output_file: tolerated, continue_on_error: true}
  - {shell: 'echo again >> tries; cat tries; test $(wc -l < tries) = 3', output_file: retried, retry: {attempts: 3, initial_delay: 1ms}}
  - {shell: 'echo old > silent; echo old > unrun; echo old > cut'}
  - {shell: 'exit 1', output_file: silent, continue_on_error: true}
  - {shell: 'echo new', output_file: unrun, timeout: '${shell.output}', continue_on_error: true}
  - {shell: 'echo so far; kill -9 $$', output_file: cut, continue_on_error: true}
  - {shell: 'head tolerated retried silent unrun cut > @EV@/all'}
`)
	r.status(event.Succeeded)
	r.want("all", "==> tolerated <==\nreport\n\n==> retried <==\nagain\nagain\nagain\n\n==> silent <==\n\n==> unrun <==\nold\n\n==> cut <==\nso far")
}

// TestOutputs: files by pattern, values by path and texts.
func TestOutputs(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
commands:
  - shell: echo > report.md; echo > b.txt; echo '{"v":[1,2],"n":{"m":"x"}}'
    id: s
    outputs:
      report: {file_pattern: '*.md'}
      all: {json_path: '$.v[*]'}
      one: {json_path: '$.n.m'}
      text: {value: 'said ${shell.exit_code}'}
  - shell: echo "${report}|${s.report}|${all}|${one}|${s.text}" > @EV@/x
  - shell: "true"
    outputs: {none: {file_pattern: '*.nothing'}}
`)
	r.status(event.Failed)
	r.want("x", "report.md|report.md|1, 2|x|said 0")
	if !strings.Contains(r.sum.Message, "outputs none") {
		t.Errorf("the message is %q", r.sum.Message)
	}
}

// TestOutputsOfPatternsWithDirectories: in a repository the file is one that the step made,
// even if the pattern names directories, and never one that the step removed.
func TestOutputsOfPatternsWithDirectories(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.git()
	r := b.run(`
commands:
  - shell: mkdir -p docs/deep; echo > docs/a.md; echo > docs/m.md; echo > docs/deep/a.md; git add -A; git commit -qm old
  - shell: git rm -q docs/a.md; echo > docs/z.md; echo > docs/deep/y.md; git add -A; git commit -qm new
    outputs:
      flat: {file_pattern: 'docs/*.md'}
      deep: {file_pattern: '**/deep/*.md'}
      name: {file_pattern: 'z.*'}
  - shell: echo "${flat}|${deep}|${name}" > @EV@/x
`)
	r.status(event.Succeeded)
	r.want("x", "docs/z.md|docs/deep/y.md|docs/z.md")
}

// TestCaptureOutputsOfSetup: variables from the outputs of setup's steps.
func TestCaptureOutputsOfSetup(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
setup:
  commands:
    - shell: printf 'v1.2\nsecond\n'; echo bad >&2
    - shell: echo '{"items":[{"id":"p"}],"n":5}'
  capture_outputs:
    whole: 0
    version: {command_index: 0, pattern: 'v(.*)'}
    errors: {command: 0, source: stderr}
    both: {command_index: 0, source: both, multiline: join}
    first: {command_index: 0, multiline: first_line}
    last: {command_index: 0, multiline: last_line}
    list: {command_index: 0, multiline: array}
    n: {command_index: 1, json_path: $.n}
    short: {command_index: 0, max_size: 2}
    def: {command_index: 0, pattern: 'z(.*)', default: none}
    items: {command_index: 1, json_path: '$.items'}
map:
  input: ${items}
  agent_template:
    - write_file: {path: x, content: '${item.id}|${version}|${errors}|${both}|${first}|${last}|${list[1]}|${n}|${short}|${def}'}
    - shell: cp x @EV@/x; echo "${whole}" > @EV@/whole
reduce:
  - shell: echo "${n} ${map.total}" > @EV@/reduce
`)
	r.status(event.Succeeded)
	r.want("x", "p|1.2|bad|v1.2 second bad|v1.2|second|second|5|v1|none")
	r.want("whole", "v1.2\nsecond")
	r.want("reduce", "5 1")
}
