package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/event"
)

// This file computes the expected content of the world and the results of a run at its end,
// from its plan and from how its steps and items have ended.

// end checks that the content of the world is that of an undisturbed run, and that a
// process which continues a run that ended well has nothing to do.
func (o *oracle) end() {
	l := o.lives[len(o.lives)-1]
	if l.dead || !endedWell(l.status) {
		return
	}
	if len(o.lives) > 1 {
		if before := o.lives[len(o.lives)-2]; !before.dead && endedWell(before.status) && len(before.leave()) == l.base {
			for _, x := range o.world.did {
				if x.life == l.number {
					o.say("life %d goes on with a run that has ended, and %s runs", l.number, x.name)
				}
			}
			if l.status != before.status {
				o.say("life %d goes on with a run that has ended (%s), and ends %s", l.number, before.status, l.status)
			}
		}
	}
	final := newFinal(o.plan, o.world.steps, l.journal)
	for _, x := range o.world.did {
		if x.ended != "cut" {
			final.answers[place{x.item, x.path}] = x
		}
	}
	run := &scene{final: final, known: map[string]string{}, sets: map[string]string{}}
	final.all(run, "setup", o.plan.Setup)
	if o.plan.Items == 0 {
		final.all(run, "commands", o.plan.Steps)
	}
	for i := 1; i <= o.plan.Items; i++ {
		e := final.items[i]
		it := run.child(i)
		if e.Status != event.Succeeded {
			continue
		}
		outs := final.all(it, "map.agent_template", o.plan.Steps)
		if !final.unsure[i] {
			o.itemOutput(e, outs)
		}
		final.outs[i] = strings.Join(outs, "\n")
	}
	if len(o.plan.Reduce) > 0 {
		o.results(final)
		final.all(run, "reduce", o.plan.Reduce)
	}
	for name, want := range final.files {
		if got, there := o.world.files[name]; !there || got != want {
			o.say("the file %s is %q, want %q", name, got, want)
		}
	}
}

// final is how everything has ended.
type final struct {
	plan  *plan
	steps map[string]*planStep
	ends  map[place]event.Event // the last end of each step
	// answers are the last executions that were not cut short.
	answers map[place]*execution
	items   map[int]event.Event
	files   map[string]string
	outs    map[int]string
	// unsure are the items for which the plan does not determine the whole output.
	unsure map[int]bool
}

func newFinal(p *plan, steps map[string]*planStep, facts []event.Event) *final {
	f := &final{plan: p, steps: steps, ends: map[place]event.Event{}, answers: map[place]*execution{}, items: map[int]event.Event{}, files: map[string]string{}, outs: map[int]string{}, unsure: map[int]bool{}}
	for _, e := range facts {
		switch e.Type {
		case event.StepFinished:
			f.ends[place{e.Index, e.Step}] = e
		case event.ItemFinished:
			f.items[e.Index] = e
		}
	}
	return f
}

// scene is the place of some steps, and what they can read there.
type scene struct {
	*final
	item        int
	rounds      string // of the paths
	value, at   string // of a loop
	param       string
	known, sets map[string]string
}

// child gives a scene inside another one, with its own variables.
func (s *scene) child(item int) *scene {
	c := *s
	c.item, c.known, c.sets = item, map[string]string{}, map[string]string{}
	for k, v := range s.known {
		c.known[k] = v
	}
	for k, v := range s.sets {
		c.sets[k] = v
	}
	return &c
}

// all gives the outputs of the steps of a list that have printed something, and records the
// files that they have made.
func (f *final) all(s *scene, list string, steps []*planStep) (outs []string) {
	for i, st := range steps {
		out, ok := f.one(s, fmt.Sprintf("%s[%d]", list, i), st)
		if !ok {
			continue
		}
		if st.Capture {
			s.known[st.Name] = out
		}
		if out != "" {
			outs = append(outs, out)
		}
	}
	return outs
}

// one gives the output of a step that ended as intended.
func (f *final) one(s *scene, path string, st *planStep) (string, bool) {
	path += s.rounds
	e, there := f.ends[place{s.item, path}]
	if st.leaf() {
		x := f.answers[place{s.item, path}]
		switch {
		case !there || x == nil || e.Status != event.Succeeded && e.Status != event.Failed:
			return "", false
		case x.ended != "ok":
			if f.plan.AgentMS > 0 || f.plan.TimeoutMS > 0 || st.Retry != nil && st.Retry.BreakerAt > 0 {
				f.unsure[s.item] = true // the last attempt may have been ended before it printed something, or refused
			}
			out, _ := st.printed()
			return out, true
		}
	}
	if !there || e.Status != event.Succeeded || recovered(e) && st.rounds() == 1 {
		if there && st.Kind == "foreach" && s.rounds == "" {
			f.unsure[s.item] = true // the output still has what its rounds have printed
		}
		return "", false
	}
	switch st.Kind {
	case "foreach":
		return f.loop(s, path, st), true
	case "call":
		c := s.child(s.item)
		c.known, c.sets = map[string]string{}, map[string]string{}
		c.rounds, c.param = s.rounds+"/"+path, st.Name
		last := ""
		for i, sub := range f.plan.Sub {
			if out, ok := f.one(c, fmt.Sprintf("commands[%d]", i), sub); ok {
				last = out
				if sub.Capture {
					c.known[sub.Name] = out
				}
			} else if end := f.ends[place{s.item, fmt.Sprintf("commands[%d]", i) + c.rounds}]; end.Status == event.Failed {
				last = ""
			}
		}
		return last, true
	}
	var args []string
	for _, a := range st.Args {
		switch a.Kind {
		case "results":
			continue
		case "item":
			args = append(args, itemValue(s.item))
		case "index":
			args = append(args, fmt.Sprint(s.item-1))
		case "capture":
			args = append(args, s.known[a.Of])
		case "sets":
			args = append(args, s.sets[a.Of])
		case "secret":
			args = append(args, planSecret)
		case "value":
			args = append(args, s.value)
		case "at":
			args = append(args, s.at)
		case "param":
			args = append(args, s.param)
		default:
			args = append(args, a.Of)
		}
	}
	name := fileFor(st, s.item, args)
	f.files[name] = content(st, s.item, args)
	if st.Moves != "" {
		from := fileFor(f.steps[st.Moves], s.item, args)
		if text, there := f.files[from]; there {
			delete(f.files, from)
			f.files[from+".moved"] = text
		}
	}
	if st.Sets {
		s.sets[st.Name] = set(st, s.item, args)
	}
	return produced(st, s.item, args), true
}

// loop gives the output of a foreach: the joined outputs of its rounds.
func (f *final) loop(s *scene, path string, st *planStep) string {
	values := st.Values
	if st.Of != "" {
		values = nil
		for line := range strings.Lines(s.known[st.Of]) {
			if line = strings.TrimSpace(line); line != "" {
				values = append(values, line)
			}
		}
	}
	outs := make([]string, len(values))
	for i, v := range values {
		c := s.child(s.item)
		c.rounds, c.value, c.at = fmt.Sprintf("%s@%d", s.rounds, i), v, fmt.Sprint(i)
		list := strings.TrimSuffix(path, s.rounds) + ".do"
		for n, do := range st.Do {
			at := fmt.Sprintf("%s[%d]", list, n)
			out, ok := f.one(c, at, do)
			if end := f.ends[place{s.item, at + c.rounds}]; !ok && end.Status == event.Failed {
				outs[i] = ""
			}
			if ok {
				outs[i] = out
				if do.Capture {
					c.known[do.Name] = out
				}
			}
		}
	}
	return strings.Join(outs, "\n")
}

func recovered(e event.Event) bool {
	var d struct{ Recovered bool }
	return json.Unmarshal(e.Data, &d) == nil && d.Recovered
}

// masked gives a text as a record has it, which is JSON.
func (f *final) masked(text string) string {
	if f.plan.Secret {
		text = strings.ReplaceAll(text, planSecret, "***")
	}
	return string([]rune(text))
}

// cutAt is the size from which on a record does not have a whole text.
const cutAt = 16 << 10

// same reports whether a recorded text equals a text, or its two ends.
func (f *final) same(got, text string) bool {
	want := f.masked(text)
	if len(want) <= cutAt {
		return got == want
	}
	return len(got) > cutAt/2 && len(got) < len(want)+200 && strings.HasPrefix(got, want[:4000]) && strings.HasSuffix(got, want[len(want)-4000:])
}

// itemOutput checks that the output of an item consists of the outputs of its steps.
func (o *oracle) itemOutput(e event.Event, outs []string) {
	var d struct {
		Output string
		Size   int64 `json:"output_size"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		o.say("item %d: %v", e.Index, err)
		return
	}
	f := &final{plan: o.plan}
	if want := strings.Join(outs, "\n"); !f.same(d.Output, want) {
		o.say("the output of item %d is %s, want %s", e.Index, ends(d.Output), ends(f.masked(want)))
	}
}

func ends(s string) string {
	if len(s) < 300 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q … %q (%d bytes)", s[:120], s[len(s)-120:], len(s))
}

// results checks that reduce gets what the items gave, and how they ended.
func (o *oracle) results(f *final) {
	if args := o.plan.Reduce[0].Args; len(args) == 0 || args[len(args)-1].Kind != "results" {
		return
	}
	var given *execution
	for _, x := range o.world.did {
		if x.name == o.plan.Reduce[0].Name && x.ended == "ok" {
			given = x
		}
	}
	if e := f.ends[place{0, "reduce[0]"}]; given == nil {
		if e.Status == event.Succeeded && (!recovered(e) || o.plan.Reduce[0].rounds() > 1) {
			o.say("reduce has ended, and its first step was never given results")
		}
		return
	}
	var list []struct {
		ItemID   string `json:"item_id"`
		Index    int
		Status   string
		Success  bool
		Output   string
		Attempts int
	}
	if err := json.Unmarshal([]byte(given.results), &list); err != nil {
		o.say("the results that reduce is given: %v in %s", err, ends(given.results))
		return
	}
	if len(list) != o.plan.Items {
		o.say("reduce is given %d results of %d items", len(list), o.plan.Items)
		return
	}
	unmended := map[int]bool{}
	for p, e := range f.ends {
		if e.Status == event.Failed && tolerated(e) && !event.Aside(p.path) && !f.steps[e.Label].MayFail {
			unmended[p.item] = true
		}
	}
	for n, r := range list {
		e := f.items[n+1]
		if r.Index != n || r.ItemID != fmt.Sprintf("i%d", n+1) || r.Status != e.Status || r.Success != (e.Status == event.Succeeded && !unmended[n+1]) || r.Attempts != e.Attempts {
			o.say("reduce is given %s, %d, %s after %d attempts as result %d; the item is %s after %d", r.ItemID, r.Index, r.Status, r.Attempts, n, e.Status, e.Attempts)
		}
		if e.Status == event.Succeeded && !f.unsure[n+1] && !f.same(r.Output, f.outs[n+1]) {
			o.say("reduce is given %s as the output of item %d, want %s", ends(r.Output), n+1, ends(f.masked(f.outs[n+1])))
		}
	}
}
