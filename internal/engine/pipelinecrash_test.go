package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// crashModules leave a line when they begin and one when they end.
const crashModules = `
- name: Work
  params: {key: String, ms: Int}
  result: {key: String, text: String}
  shell: |
    echo "begin $INPUT_KEY" >> $EV/log
    sleep "$(printf '0.%03d' "$INPUT_MS")"
    printf '{"key": "%s", "text": "%s done"}' "$INPUT_KEY" "$INPUT_KEY"
    echo "end $INPUT_KEY" >> $EV/log
- name: Flaky
  params: {key: String, failures: Int}
  result: String
  shell: |
    echo "begin $INPUT_KEY" >> $EV/log
    sleep 0.01
    if [ $(grep -cx "failed $INPUT_KEY" $EV/log) -lt "$INPUT_FAILURES" ]; then echo "failed $INPUT_KEY" >> $EV/log; exit 1; fi
    echo "$INPUT_KEY at last"
- name: Steps
  params: {key: String}
  result: String
  workflow: {file: steps.yml, output: got}
- name: Large
  params: {key: String}
  result: String
  shell: 'echo "begin $INPUT_KEY" >> $EV/log; head -c 200000 /dev/zero | tr "\0" L'
`

const crashSteps = `
parameters: {key: {type: string, required: true}}
commands:
  - shell: echo "begin ${key}-one" >> $EV/log; sleep 0.02; echo one
    capture: one
  - shell: echo "begin ${key}-two" >> $EV/log; sleep 0.02; echo "${one} two"
    capture: got
`

// crashFlow is a pipeline that has everything that takes time.
const crashFlow = `
use stdlib.list
use stdlib.collection
use stdlib.string
in keys: List<String>
first = Work("first", 30)
pages = map(keys, (k) => Work(k, 15) with retry: 2)
flaky = Flaky("flaky", 3) with retry: 6, delay: 40ms
worn = Flaky("worn", 99) with retry: 2, delay: 20ms, fallback: "worn after ${error.attempts}"
steps = Steps(first.key)
large = Large("large")
last = Work("last-" + first.key, 20) with cache: 1h
count = list-length(pages)
size = string-length(large)
some = map(keys, (k) => if (k == "k01" or k == "k02") Flaky("some-" + k, 1) with retry: 3, delay: 10ms else "")
out pages
out flaky
out worn
out steps
out last
out count
out size
out some
`

// crashKeys are the elements of the list.
const crashKeys = 50

// doneCalls gives the keys of the calls whose end is on record. Their lines must not come
// any more.
func doneCalls(events []event.Event) map[string]bool {
	done := map[string]bool{}
	for _, e := range events {
		if e.Type != event.StepFinished || e.Status != event.Succeeded && e.Status != event.Degraded {
			continue
		}
		key := e.Step
		switch {
		case strings.HasPrefix(key, "pages["):
			var i int
			if _, err := fmt.Sscanf(key, "pages[%d].Work", &i); err == nil {
				key = fmt.Sprintf("k%02d", i)
			}
		case strings.HasPrefix(key, "some["):
			var i int
			if _, err := fmt.Sscanf(key, "some[%d].Flaky", &i); err == nil {
				key = fmt.Sprintf("some-k%02d", i)
			}
		case key == "last":
			key = "last-first"
		case strings.HasPrefix(key, "commands[0]"):
			key = "first-one"
		case strings.HasPrefix(key, "commands[1]"):
			key = "first-two"
		}
		done["begin "+key] = true
	}
	return done
}

// TestPipelinesKilledAtRandom: after `kill -9` at any moment, many times, the pipeline
// gives what an undisturbed one gives. A call whose end is on record is not made again, and
// attempts are counted over all lives.
func TestPipelinesKilledAtRandom(t *testing.T) {
	t.Parallel()
	want := crashedPipeline(t, rand.New(rand.NewPCG(0, 1)), 0, new(int)) // the first one is not killed
	killing(t, 10, 4, func(t *testing.T, _ int, rnd *rand.Rand, kills *int) {
		got := crashedPipeline(t, rnd, 2+rnd.IntN(8), kills)
		if got != want {
			toll.lost.Add(1)
			t.Errorf("the outputs are\n%.2000s\nthose of an undisturbed run are\n%.2000s", got, want)
		}
	})
}

// crashedPipeline runs the pipeline through at most so many kills, counts them, and gives
// its outputs.
func crashedPipeline(t *testing.T, rnd *rand.Rand, most int, kills *int) (outputs string) {
	b := newBench(t)
	b.modules(crashModules)
	b.write("steps.yml", crashSteps)
	b.write("flow.cst", crashFlow)
	var keys []string
	for i := range crashKeys {
		keys = append(keys, fmt.Sprintf("%q", fmt.Sprintf("k%02d", i)))
	}
	begin := []string{"run", "-q", "--max-parallel", "4", "flow.cst", "--input", "keys=[" + strings.Join(keys, ",") + "]"}
	var did []string
	for {
		events, state := b.recordedEvents()
		done := doneCalls(events)
		before := len(b.lines())
		args := []string{"resume", "-q"}
		switch {
		case state.Status == event.Succeeded: // it was killed after it had recorded its end
			b.checkCrashed(events, did)
			return outputsOf(t, events)
		case events == nil:
			args = begin
		}
		after := time.Duration(-1)
		if len(did) < most {
			after = time.Duration(rnd.Int64N(int64(350 * time.Millisecond)))
		}
		p := b.start("bide", args...)
		status := p.crash(t, after)
		if status < 0 {
			*kills++
		}
		did = append(did, fmt.Sprintf("%s: %d after %v: %s", args[0], status, after, p.text()))
		b.quiet()
		for _, line := range b.lines()[before:] {
			if done[line] {
				b.blame(&toll.twice, "%q came again after its end was recorded; %v", line, did)
			}
		}
		if status > 0 {
			b.blame(&toll.status, "exit status %d; %v", status, did)
		}
		if len(did) > 100 {
			b.blame(&toll.stuck, "the run has no end: %v", did)
		}
	}
}

// checkCrashed checks what must be true of the journal and outside, however often the run
// was killed.
func (b *bench) checkCrashed(events []event.Event, did []string) {
	b.t.Helper()
	ends, failures := map[string]int{}, map[string][]int{}
	for _, e := range events {
		switch e.Type {
		case event.StepFinished:
			ends[e.Step]++
		case event.AttemptFailed:
			failures[e.Step] = append(failures[e.Step], e.Attempt)
		}
	}
	for step, n := range ends {
		if n != 1 {
			b.t.Errorf("%s has ended %d times; %v", step, n, did)
		}
	}
	if len(ends) != crashKeys+6+2+2 {
		b.t.Errorf("%d calls and steps have ended; %v", len(ends), did)
	}
	if got := fmt.Sprint(failures["worn"]); got != "[1 2 3]" {
		b.t.Errorf("the failed attempts of worn are %s, want [1 2 3]; %v", got, did)
	}
	// A kill between a failure and its record adds one attempt outside, but none to those
	// that count.
	if got := fmt.Sprint(failures["flaky"]); got != "[1 2 3]" && !strings.HasPrefix("[1 2 3]", strings.TrimSuffix(got, "]")) {
		b.t.Errorf("the failed attempts of flaky are %s; %v", got, did)
	}
	for i := range crashKeys {
		if n := b.times(fmt.Sprintf("end k%02d", i)); n < 1 {
			b.t.Errorf("k%02d has no end outside; %v", i, did)
		}
	}
}

// outputsOf gives the outputs of a run as its journal has them.
func outputsOf(t *testing.T, events []event.Event) string {
	t.Helper()
	var d struct{ Outputs map[string]any }
	if err := json.Unmarshal(events[len(events)-1].Data, &d); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(d.Outputs, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
