package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestStepsThatMoved: a run knows its steps by their places. Where a file that has changed has another
// step in the place of one that has ended, nothing runs, and the message says which; where the
// steps that have ended are in their places, the run continues.
func TestStepsThatMoved(t *testing.T) {
	t.Parallel()
	steps := func(names ...string) string {
		text := "commands:\n"
		for _, name := range names {
			text += "  - shell: echo " + name + " >> $EV/log\n"
		}
		return strings.Replace(text, "echo fails >> $EV/log", "echo fails >> $EV/log; grep -q new $EV/world", 1)
	}
	mapped := func(setup, agent, reduce string) string {
		list := func(names, indent string) (text string) {
			for name := range strings.FieldsSeq(names) {
				text += indent + "- shell: echo " + name + " >> $EV/log\n"
			}
			return strings.Replace(text, "echo fails >> $EV/log", "echo fails >> $EV/log; grep -q new $EV/world", 1)
		}
		return "mode: mapreduce\nsetup:\n" + list(setup, "  ") + "map:\n  input: [x]\n  agent_template:\n" + list(agent, "    ") + "reduce:\n" + list(reduce, "  ")
	}
	scripts := func(names ...string) string {
		text := "commands:\n"
		for _, name := range names {
			text += "  - shell: |\n      cd $EV\n      echo " + name + " >> $EV/log\n"
			if name == "fails" {
				text += "      grep -q new $EV/world\n"
			}
		}
		return text
	}
	for name, c := range map[string]struct {
		was, is string
		life    []string // how it continues
		first   int
		moved   string   // the place that the message names; "": it continues
		ran     []string // the steps of the second life
	}{
		"a new one in front":                {was: steps("a", "b", "fails"), is: steps("n", "a", "b", "fails"), moved: `commands[0] is "echo n >> $EV/log" now, and was "echo a >> $EV/log"`},
		"one taken out in front":            {was: steps("a", "b", "fails"), is: steps("b", "fails"), moved: "commands[0]"},
		"two that change places":            {was: steps("a", "b", "fails"), is: steps("b", "a", "fails"), moved: "commands[1]"},
		"a new one behind":                  {was: steps("a", "b", "fails"), is: steps("a", "b", "n", "fails", "m"), ran: []string{"n", "fails", "m"}},
		"scripts alike in their first line": {was: scripts("a", "b", "fails"), is: scripts("n", "a", "b", "fails"), moved: `commands[0] is "cd $EV\necho n >> $EV/log`},
		"scripts with a secret":             {was: "secrets: {S: hush-hush-hush}\n" + scripts("hush-hush-hush", "b", "fails"), is: "secrets: {S: hush-hush-hush}\n" + scripts("n", "hush-hush-hush", "b", "fails"), moved: "commands[1] is \"cd $EV\\necho *** >> $EV/log"},
		"a script with another text":        {was: scripts("a", "b", "fails"), is: scripts("a", "B", "fails"), ran: []string{"fails"}},
		"one with another text":             {was: steps("a", "b", "fails"), is: steps("A", "b", "fails"), ran: []string{"fails"}},
		"one of two alike":                  {was: steps("a", "a", "fails"), is: steps("a", "A", "fails"), ran: []string{"fails"}},
		"one taken out behind":              {was: steps("a", "fails", "b"), is: steps("a", "fails"), ran: []string{"fails"}},
		"those before a rerun":              {was: steps("a", "b", "c"), is: steps("n", "a", "b", "c"), life: []string{"rerun", "last", "--force", "--from", "commands[1]"}, first: -1, moved: "commands[0]"},
		"those of a rerun":                  {was: steps("a", "b", "c"), is: steps("a", "n", "b", "c"), life: []string{"rerun", "last", "--force", "--from", "commands[1]"}, first: -1, ran: []string{"n", "b", "c"}},
		"setup, and a letter":               {was: mapped("s", "a fails", "r"), is: mapped("n s", "a fails", "r"), life: []string{"dlq", "retry", "last"}, first: 3, moved: "setup[0]"},
		"a new attempt and its reduce":      {was: mapped("s", "a fails", "r"), is: mapped("s", "n a fails", "q r"), life: []string{"dlq", "retry", "last"}, first: 3, ran: []string{"n", "a", "fails", "q", "r"}},
		"a letter that is as recorded":      {was: mapped("s", "a fails", "r"), is: mapped("n s", "a fails", "r"), life: []string{"dlq", "retry", "last", "--as-recorded"}, first: 3, ran: []string{"a", "fails", "r"}},
		"a rerun of reduce with others":     {was: mapped("s", "a", "r"), is: mapped("s", "n a", "q r"), life: []string{"rerun", "last", "--force", "--from", "reduce[0]"}, first: -1, ran: []string{"q", "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", c.was)
			b.world("old")
			first := map[int]int{0: 1, -1: 0, 3: 3}[c.first]
			if p := b.start("bide", "run", "-q", "flow.yml"); p.wait(t) != first {
				t.Fatalf("the first life: %s", p.text())
			}
			before := len(b.lines())
			b.world("new")
			b.write("flow.yml", c.is)
			life := c.life
			if life == nil {
				life = []string{"resume", "--force"}
			}
			p := b.start("bide", append(life, "-q")...)
			status, ran := p.wait(t), b.lines()[before:]
			if c.moved == "" && (status != 0 || fmt.Sprint(ran) != fmt.Sprint(c.ran)) {
				t.Errorf("status %d, and %q ran, want %q: %s", status, ran, c.ran, p.text())
			}
			if c.moved != "" && (status != 2 || len(ran) > 0 || !strings.Contains(p.text(), c.moved)) {
				t.Errorf("status %d, and %q ran, want a message with %s: %s", status, ran, c.moved, p.text())
			}
		})
	}
}

// TestItemStepsThatMoved: an item that was cut short continues behind its steps that have ended.
func TestItemStepsThatMoved(t *testing.T) {
	t.Parallel()
	const flow = "mode: mapreduce\nmap:\n  input: [x]\n  agent_template:\n%s    - shell: echo a >> $EV/log\n    - shell: touch $EV/there; test -e $EV/on || sleep 100; echo b >> $EV/log\n"
	b := newBench(t)
	b.write("flow.yml", fmt.Sprintf(flow, ""))
	p := b.start("bide", "run", "-q", "flow.yml")
	b.appears("there")
	b.recorded("the end of the first step", func(e event.Event) bool {
		return e.Type == event.StepFinished && e.Step == "map.agent_template[0]"
	})
	p.crash(t, 0)
	b.quiet()
	b.touch("on")
	b.write("flow.yml", fmt.Sprintf(flow, "    - shell: echo n >> $EV/log\n"))
	p = b.start("bide", "resume", "-q", "--force")
	if status := p.wait(t); status != 2 || !strings.Contains(p.text(), `map.agent_template[0] is "echo n >> $EV/log" now`) {
		t.Errorf("status %d: %s", status, p.text())
	}
	b.write("flow.yml", fmt.Sprintf(flow, "")+"    - shell: echo n >> $EV/log\n")
	p = b.start("bide", "resume", "-q", "--force")
	if status, ran := p.wait(t), fmt.Sprint(b.lines()); status != 0 || ran != "[a b n]" {
		t.Errorf("status %d, %s ran: %s", status, ran, p.text())
	}
}
