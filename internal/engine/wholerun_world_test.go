package engine_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	failures "github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// planWorld is the world in which the commands of a plan run: files, and what each command
// has done. It survives the lives of the run.
type planWorld struct {
	ports.NoLogs
	p      *plan
	steps  map[string]*planStep
	files  map[string]string
	tries  map[string]int // number of executions, by step and place
	mended bool
	did    []*execution
	wrong  []string

	life *oneLife // the current one
}

// execution is one execution of a command.
type execution struct {
	life    int
	seq     int // how many facts the journal had when it began
	name    string
	path    string
	item    int
	attempt int // the attempt at the item
	number  int // the attempt at the step
	args    []string
	results string // the results of the map that a reduce step got
	last    string // BIDE_LAST_ERROR
	at      time.Time
	ended   string // ok, the class of the failure, or cut: it was ended, or its process died before it could record the end
}

func newPlanWorld(p *plan) *planWorld {
	w := &planWorld{p: p, steps: map[string]*planStep{}, files: map[string]string{}, tries: map[string]int{}}
	p.every(func(s *planStep) { w.steps[s.Name] = s })
	return w
}

var errKilled = errors.New("the process is dead")

// Run executes a command of the model.
func (w *planWorld) Run(ctx context.Context, c *step.Call) (res action.Result, err error) {
	l := w.life
	res.Start = l.clock.Now()
	if l.dead {
		return res, errKilled
	}
	text := ""
	switch a := c.Action.(type) {
	case *workflow.Shell:
		text, err = a.Text.Expand(c.Scope)
	case *workflow.Claude:
		text, err = a.Text.Expand(c.Scope)
	default:
		err = fmt.Errorf("nobody asked for a %T", c.Action)
	}
	if err != nil {
		return res, err
	}
	words := strings.Split(strings.TrimPrefix(text, "/"), "|")
	s := w.steps[words[min(1, len(words)-1)]]
	if words[0] == "list" && s != nil && len(words) == 2 {
		res.Output = strings.Join(w.left(s), "\n")
		return res, nil
	}
	if words[0] != "do" || s == nil || len(words) != 2+len(s.Args) {
		w.wrong = append(w.wrong, fmt.Sprintf("a command that is of no step: %.200q", text))
		return res, errors.New("no such command")
	}
	e := &execution{life: l.number, seq: len(l.journal), name: s.Name, path: c.Path, item: c.Index, attempt: c.Attempt, number: c.Number, args: words[2:], at: res.Start, ended: "cut"}
	for _, v := range c.Env() {
		if text, ok := strings.CutPrefix(v, "BIDE_LAST_ERROR="); ok {
			e.last = text
		}
	}
	if n := len(s.Args); n > 0 && s.Args[n-1].Kind == "results" {
		e.results, e.args = e.args[n-1], e.args[:n-1]
	}
	w.did = append(w.did, e)
	fail := w.execute(ctx, c, s, e, &res)
	res.Duration = l.clock.Now().Sub(res.Start)
	if l.dead {
		return res, errKilled
	}
	if fail == nil {
		e.ended = "ok"
		return res, nil
	}
	if f, ok := errors.AsType[*failures.Failure](fail); ok {
		e.ended, res.ExitCode = f.Class, f.Exit
	}
	return res, fail
}

// left gives the values of a foreach that lists what is not done yet.
func (w *planWorld) left(s *planStep) (values []string) {
	for i, v := range s.Values {
		name := fileFor(s.Do[0], 0, []string{strconv.Itoa(i), v})
		if w.files[name] == "" && w.files[name+".moved"] == "" {
			values = append(values, v)
		}
	}
	return values
}

// execute does what a command does. It may be killed, or ended, after each effect.
func (w *planWorld) execute(ctx context.Context, c *step.Call, s *planStep, e *execution, res *action.Result) error {
	l, name := w.life, fileFor(s, e.item, e.args)
	w.tries[name]++
	class := w.fails(s, e, w.tries[name])
	for _, need := range s.Needs {
		at := fileFor(w.steps[need], e.item, e.args)
		if w.files[at] == "" && w.files[at+".moved"] == "" {
			w.wrong = append(w.wrong, fmt.Sprintf("life %d: %s runs, and the file of %s is not there", l.number, name, need))
		}
	}
	takes := time.Duration(s.TakesMS) * time.Millisecond
	if w.p.Uneven {
		h := fnv.New32a()
		fmt.Fprint(h, name, w.tries[name])
		takes += time.Duration(h.Sum32()%999_983) * time.Nanosecond
	}
	if class == "hang" {
		takes = time.Hour
	}
	late := c.Timeout > 0 && takes > c.Timeout
	if late {
		takes = c.Timeout
	}
	if err := l.clock.Wait(ctx, takes/2, nil); err != nil {
		return err
	}
	if !w.put(name+".part", "part") {
		return errKilled
	}
	if err := l.clock.Wait(ctx, takes-takes/2, nil); err != nil {
		return err
	}
	if s.USD > 0 {
		res.Usage = &action.Usage{InputTokens: 10, CostUSD: s.USD}
	}
	if late {
		class = "timeout"
	}
	if class != "" {
		return w.failure(s, class, res)
	}
	if !w.put(name, content(s, e.item, e.args)) {
		return errKilled
	}
	if s.Moves != "" {
		from := fileFor(w.steps[s.Moves], e.item, e.args)
		if text, there := w.files[from]; there {
			delete(w.files, from)
			if !w.put(from+".moved", text) {
				return errKilled
			}
		} else if w.files[from+".moved"] == "" {
			w.wrong = append(w.wrong, fmt.Sprintf("life %d: %s is to move the file of %s, which is not there", l.number, name, s.Moves))
		}
	}
	res.Output = produced(s, e.item, e.args)
	if s.Leak {
		res.Stderr = "warning: " + planSecret
	}
	if s.Sets {
		res.Set = [][2]string{{"v" + s.Name, set(s, e.item, e.args)}}
	}
	return nil
}

// put makes an effect. It is false for a process that is killed after it.
func (w *planWorld) put(name, text string) bool {
	if w.life.dead {
		return false
	}
	w.files[name] = text
	w.life.tick()
	return !w.life.dead
}

// fails gives the class with which an execution, the n-th at its place, fails; "" if it
// succeeds.
func (w *planWorld) fails(s *planStep, e *execution, n int) string {
	f := s.Fail
	switch {
	case f.Mod > 0 && e.item%f.Mod != 0:
	case f.Broken && !w.mended, n <= f.Times, e.item > 0 && e.attempt <= f.Before && !w.mended:
		return f.Class
	}
	return ""
}

// failure gives the error of a command that fails.
func (w *planWorld) failure(s *planStep, class string, res *action.Result) error {
	f := &failures.Failure{Class: class}
	f.Stdout, f.Message = s.printed()
	f.Stderr = f.Message
	res.Output, res.Stderr = f.Stdout, f.Stderr
	switch class {
	case "exit", "hang":
		f.Class, f.Exit = "exit", 3
	case "network":
		f.Network = true
	case "timeout":
		f.Timeout = true
	case "rate_limit":
		f.RateLimited, f.Status, f.RetryAfter = true, 429, 7*time.Second
	}
	return f
}

// Output gives the output of an attempt.
func (w *planWorld) Output(_ context.Context, res action.Result) ([]byte, error) {
	return []byte(res.Output), nil
}

var errNotInModel = errors.New("the model has no such thing")

// Read fails, because no step of a plan reads a file by itself.
func (w *planWorld) Read(context.Context, files.Name) ([]byte, error) { return nil, errNotInModel }

// Items fails, as Read does.
func (w *planWorld) Items(context.Context, files.Name, string) ([]any, error) {
	return nil, errNotInModel
}

// Save fails, as Read does.
func (w *planWorld) Save(context.Context, files.Name, action.Result) error { return errNotInModel }

// Find fails, as Read does.
func (w *planWorld) Find(context.Context, files.Name) ([]string, error) { return nil, errNotInModel }

// IsDir takes every path for a directory.
func (w *planWorld) IsDir(context.Context, files.Name) error { return nil }
