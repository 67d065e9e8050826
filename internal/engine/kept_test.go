package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// numbered is what `seq -f NAME%09.0f N` prints, without its last line end.
func numbered(name string, n int) string {
	var b strings.Builder
	for i := range n {
		s := strconv.Itoa(i + 1)
		b.WriteString(name + strings.Repeat("0", 9-len(s)) + s + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// TestLargeOutputsStandOnce: what rounds and steps print is only in their logs. The journal
// refers to the logs, and a later life of the run reads the whole output, in every form in
// which variables have it.
func TestLargeOutputsStandOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const each = 20_000 // lines of 11 bytes
	b.write("want.a", numbered("a", each))
	b.write("want.c", numbered("c", each))
	b.write("want.last", numbered("l", each))
	var rounds []string
	for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
		rounds = append(rounds, numbered(n, each))
	}
	all := strings.Join(rounds, "\n") // and a variable has 1 MiB
	all = all[:1<<19] + "\n… " + strconv.Itoa(len(all)-1<<20) + " bytes left out …\n" + all[len(all)-1<<19:]
	b.write("want.all", all)
	r := b.run(`
commands:
  - foreach: [a, b, c, d, e, f]
    id: loop
    do: [{shell: "seq -f ${item}%09.0f 20000"}]
  - shell: seq -f l%09.0f 20000; seq -f e%09.0f 20000 >&2
    id: named
    capture: caught
    outputs: {out: "${named.output}"}
  - shell: test -e $EV/mended
  - {write_file: {path: got.a, content: "${foreach.results[0].output}"}}
  - {write_file: {path: got.c, content: "${foreach.results[2]['output']}"}}
  - {write_file: {path: got.all, content: "${loop.output}"}}
  - {write_file: {path: got.named, content: "${named.output}"}}
  - {write_file: {path: got.caught, content: "${caught}"}}
  - {write_file: {path: got.out, content: "${named.out}"}}
  - {write_file: {path: got.stderr, content: "${named.stderr}"}}
  - {write_file: {path: got.object, content: "${named}"}}
  - shell: "true"
    when: named.output contains "l000019999" && foreach.results[5].output contains "f000000001"
    id: both
  - shell: test ${both.exit_code} = 0 && test ${foreach.results[*].item|count} = 6
`)
	r.status(event.Failed)
	b.touch("mended")
	r = b.resume(context.Background())
	r.status(event.Succeeded)
	for got, want := range map[string]string{"a": "a", "c": "c", "all": "all", "named": "last", "caught": "last", "out": "last"} {
		g, err := os.ReadFile(filepath.Join(b.dir, "got."+got))
		w, werr := os.ReadFile(filepath.Join(b.dir, "want."+want))
		if err != nil || werr != nil || string(g) != string(w) {
			t.Errorf("%s has %d bytes, want %d of %s: %v %v", got, len(g), len(w), want, err, werr)
		}
	}
	if g, _ := os.ReadFile(filepath.Join(b.dir, "got.stderr")); string(g) != numbered("e", each) {
		t.Errorf("stderr has %d bytes", len(g))
	}
	if g, _ := os.ReadFile(filepath.Join(b.dir, "got.object")); !strings.Contains(string(g), `\nl000019999\n`) {
		t.Errorf("the object has %.200s", g)
	}
	size := int64(0)
	dbs, err := filepath.Glob(filepath.Join(b.home, "runs", "*", "journal.db*"))
	if err != nil || len(dbs) == 0 {
		t.Fatal(dbs, err)
	}
	for _, db := range dbs {
		info, err := os.Stat(db)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 1_500_000 { // the outputs are 8 × 220,000 bytes; a journal with all of them had 4.2 MB
		t.Errorf("the journal has %d bytes", size)
	}
}

// TestAnOutputWhoseLogIsGone: if a step reads an output that is gone, that is an error, not
// a different text.
func TestAnOutputWhoseLogIsGone(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"rm", "truncate -s 100", "sed -i s/1/2/"} {
		b := newBench(t)
		r := b.run(`
commands:
  - shell: seq 20000
    id: big
  - shell: ` + how + ` '${big.output_file}'
  - shell: echo "${big.output|lines|first}" > $EV/read
`)
		r.status(event.Failed)
		if !strings.Contains(r.sum.Message, "an output") {
			t.Errorf("%s: %s", how, r.sum.Message)
		}
		r.want("read", "-")
	}
}

// TestOutputsOfItemsStandOnce: the same holds for what the steps of items print. An item
// that was interrupted after such a step reads the whole output, and so do the steps after
// the map.
func TestOutputsOfItemsStandOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	soft, stop := context.WithCancel(context.Background())
	defer stop()
	b.opt.Soft = soft
	sinks := b.opt.Sinks
	b.opt.Sinks = append(sinks[:len(sinks):len(sinks)], event.SinkFunc(func(e event.Event) {
		if e.Type == event.StepFinished && e.Index > 0 {
			stop()
		}
	}))
	r := b.run(`
map:
  input: [{name: a}, {name: b}, {name: c}, {name: d}]
  agent_template:
    - {id: big, shell: "seq -f ${item.name}%09.0f 3800"}
    - {write_file: {path: "got.${item.name}", content: "${big.output}"}}
    - shell: echo ${item.name} >> $EV/began
reduce:
  - shell: cp ${map.results_file} @EV@/results
`)
	r.status(event.Interrupted)
	if _, err := os.Stat(filepath.Join(b.ev, "began")); err == nil {
		t.Fatal("no item was interrupted behind its first step")
	}
	b.opt.Sinks = sinks
	r = b.resume(context.Background())
	r.status(event.Succeeded)
	list := r.mapResults("results")
	if len(list) != 4 {
		t.Fatalf("there are %d results", len(list))
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		want := numbered(name, 3800) // 42 KB
		if got, err := os.ReadFile(filepath.Join(b.dir, "got."+name)); string(got) != want {
			t.Errorf("item %s read %d bytes, want %d: %v", name, len(got), len(want), err)
		}
		step := list[i]["steps"].([]any)[0].(map[string]any)
		if step["output"] != want {
			t.Errorf("the result of item %s has %d bytes of its step, want %d", name, len(step["output"].(string)), len(want))
		}
	}
	events, _ := b.recordedEvents()
	for _, e := range events {
		if len(e.Data) > 4000 {
			t.Errorf("the data of %s of %s %s has %d bytes", e.Type, e.Item, e.Step, len(e.Data))
		}
	}
}
