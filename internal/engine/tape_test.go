package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	failures "github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/worktree"
)

// Tape has the answers of actions and git, in order, by question. A run can be played again
// from it. A failure is kept as a record would keep it, and read back from that. Several
// goroutines may use it at once.
type Tape struct {
	mu      sync.Mutex
	answers map[string][]taped
}

type taped struct {
	value   any
	failure []byte // the JSON text of a *failures.Failure; nil: it succeeded
	took    time.Duration
}

// put keeps an answer.
func (t *Tape) put(key string, v any, err error, took time.Duration) {
	x := taped{value: v, took: took}
	if err != nil {
		text, jerr := json.Marshal(failures.From(err))
		if jerr != nil {
			panic(jerr) // a failure can always be written as JSON
		}
		x.failure = text
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answers == nil {
		t.answers = map[string][]taped{}
	}
	t.answers[key] = append(t.answers[key], x)
}

// nextAnswer takes the next answer to a question.
func nextAnswer[T any](t *Tape, key string) (v T, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.answers[key]
	if len(list) == 0 {
		return v, 0, fmt.Errorf("virtual: the tape has no answer to %s", key)
	}
	x := list[0]
	t.answers[key] = list[1:]
	if x.value != nil {
		v = x.value.(T)
	}
	if x.failure == nil {
		return v, x.took, nil
	}
	f := &failures.Failure{}
	if err := json.Unmarshal(x.failure, f); err != nil {
		return v, 0, err
	}
	return v, x.took, f
}

// Left gives a question whose answer nothing asked for; "" if there is none.
func (t *Tape) Left() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, list := range t.answers {
		if len(list) > 0 {
			return key
		}
	}
	return ""
}

func callKey(c *step.Call) string {
	return fmt.Sprintf("run %s item %d attempt %d, %d of it", c.Path, c.Index, c.Attempt, c.Number)
}

// Taping is actions whose answers are kept on a tape.
type Taping struct {
	step.Actions
	Tape *Tape
}

// Run makes an attempt and keeps what it did. If it was cut short before its process began,
// its time is the time until then.
func (a Taping) Run(ctx context.Context, c *step.Call) (action.Result, error) {
	start := time.Now()
	res, err := a.Actions.Run(ctx, c)
	took := res.Duration
	if ctx.Err() != nil {
		took = max(took, time.Since(start))
	}
	if errors.As(context.Cause(ctx), new(*step.TimeoutError)) {
		took += time.Hour // the timeout had begun before the action, and ends it when it is played, too
	}
	a.Tape.put(callKey(c), res, err, took)
	return res, err
}

// Output keeps an output.
func (a Taping) Output(ctx context.Context, res action.Result) ([]byte, error) {
	b, err := a.Actions.Output(ctx, res)
	a.Tape.put("output "+res.Output, b, err, 0)
	return b, err
}

// Read keeps the content of a file.
func (a Taping) Read(ctx context.Context, file files.Name) ([]byte, error) {
	b, err := a.Actions.Read(ctx, file)
	a.Tape.put("read "+file.Full(), b, err, 0)
	return b, err
}

// Items keeps the values of a file.
func (a Taping) Items(ctx context.Context, file files.Name, jsonPath string) ([]any, error) {
	list, err := a.Actions.Items(ctx, file, jsonPath)
	a.Tape.put("items "+file.Full(), list, err, 0)
	return list, err
}

// Save keeps how a file could be written.
func (a Taping) Save(ctx context.Context, file files.Name, res action.Result) error {
	err := a.Actions.Save(ctx, file, res)
	a.Tape.put("save "+file.Full(), nil, err, 0)
	return err
}

// Find keeps the names of files.
func (a Taping) Find(ctx context.Context, pattern files.Name) ([]string, error) {
	list, err := a.Actions.Find(ctx, pattern)
	a.Tape.put("find "+pattern.Full(), list, err, 0)
	return list, err
}

// IsDir keeps whether a path is that of a directory.
func (a Taping) IsDir(ctx context.Context, dir files.Name) error {
	err := a.Actions.IsDir(ctx, dir)
	a.Tape.put("dir "+dir.Full(), nil, err, 0)
	return err
}

// Player is actions that answer from a tape, in the time that it took.
type Player struct {
	ports.NoLogs
	Clock step.Clock
	Tape  *Tape
}

// Run plays an attempt. If the recorded attempt was cut short, it says so.
func (a Player) Run(ctx context.Context, c *step.Call) (action.Result, error) {
	start := a.Clock.Now()
	res, took, err := nextAnswer[action.Result](a.Tape, callKey(c))
	res.Start = start
	if werr := a.Clock.Wait(ctx, took, nil); werr != nil {
		return res, werr
	}
	return res, err
}

// Output plays an output.
func (a Player) Output(_ context.Context, res action.Result) ([]byte, error) {
	b, _, err := nextAnswer[[]byte](a.Tape, "output "+res.Output)
	return b, err
}

// Read plays the content of a file.
func (a Player) Read(_ context.Context, file files.Name) ([]byte, error) {
	b, _, err := nextAnswer[[]byte](a.Tape, "read "+file.Full())
	return b, err
}

// Items plays the values of a file.
func (a Player) Items(_ context.Context, file files.Name, _ string) ([]any, error) {
	list, _, err := nextAnswer[[]any](a.Tape, "items "+file.Full())
	return list, err
}

// Save plays the writing of a file.
func (a Player) Save(_ context.Context, file files.Name, _ action.Result) error {
	_, _, err := nextAnswer[any](a.Tape, "save "+file.Full())
	return err
}

// Find plays the names of files.
func (a Player) Find(_ context.Context, pattern files.Name) ([]string, error) {
	list, _, err := nextAnswer[[]string](a.Tape, "find "+pattern.Full())
	return list, err
}

// IsDir plays whether a path is that of a directory.
func (a Player) IsDir(_ context.Context, dir files.Name) error {
	_, _, err := nextAnswer[any](a.Tape, "dir "+dir.Full())
	return err
}

// TapingRepo is a repository whose answers are kept on a tape; without one it
// plays the tape.
type TapingRepo struct {
	Repo step.Repository // nil: play
	Tape *Tape
}

func repo[T any](r TapingRepo, key string, ask func() (T, error)) (T, error) {
	if r.Repo == nil {
		v, _, err := nextAnswer[T](r.Tape, "git "+key)
		return v, err
	}
	v, err := ask()
	r.Tape.put("git "+key, v, err, 0)
	return v, err
}

// Mark is step.Repository's.
func (r TapingRepo) Mark(ctx context.Context, dir string) (worktree.Point, error) {
	return repo(r, "mark "+dir, func() (worktree.Point, error) { return r.Repo.Mark(ctx, dir) })
}

// Context is step.Repository's.
func (r TapingRepo) Context(ctx context.Context, dir string, from worktree.Point) (worktree.GitContext, error) {
	return repo(r, "context "+dir, func() (worktree.GitContext, error) { return r.Repo.Context(ctx, dir, from) })
}

// State is step.Repository's.
func (r TapingRepo) State(ctx context.Context, dir string) (worktree.State, error) {
	return repo(r, "state "+dir, func() (worktree.State, error) { return r.Repo.State(ctx, dir) })
}

// AutoCommit is step.Repository's.
func (r TapingRepo) AutoCommit(ctx context.Context, dir string, o worktree.CommitOptions) (string, error) {
	return repo(r, "commit "+dir, func() (string, error) { return r.Repo.AutoCommit(ctx, dir, o) })
}

// RequireCommit is step.Repository's.
func (r TapingRepo) RequireCommit(ctx context.Context, dir, since string) error {
	_, err := repo(r, "require "+dir, func() (any, error) { return nil, r.Repo.RequireCommit(ctx, dir, since) })
	return err
}
