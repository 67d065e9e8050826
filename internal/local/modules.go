package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// maxResult is how large the result of a module may be.
const maxResult = 64 << 20

// module makes one attempt of a command or a request of a module. The output is
// whole.
func (a *Actions) module(ctx context.Context, c *step.Call) (action.Result, error) {
	if c.Module.HTTP != nil {
		return a.request(ctx, c.Module, c.Args)
	}
	s := c.Module.Shell
	argv := s.Argv
	if len(argv) == 0 {
		argv = []string{"sh", "-c", s.Text}
	}
	out := a.outputs(c.Address, c.Path, c.Number, false, c.Quiet)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := &limited{limit: maxResult, full: stop}
	at := &action.Call{Dir: c.Dir, Env: a.traced(c.Env(), c.Address, c.Path, c.Number), Stdout: result, Stderr: out.stderr, Spill: out.spill, Log: out.log, Mask: a.Recorder.Masks()}
	res, err := a.World.Command(ctx, at, argv, c.Module.Stdin(c.Args))
	if cerr := out.close(&res); err == nil {
		err = cerr
	}
	if result.over {
		return res, tooLarge(c.Module)
	}
	res.Output = string(result.b)
	return res, err
}

// tooLarge is the error of a module whose result is larger than one may be.
func tooLarge(d *module.Definition) error {
	return retry.Permanent(fmt.Errorf("the output of %s is larger than %d MiB", d.Name, maxResult>>20))
}

// request makes a request of a module.
func (a *Actions) request(ctx context.Context, d *module.Definition, args []any) (action.Result, error) {
	url, headers, body := d.Request(args)
	q := &action.Request{Method: d.HTTP.Method, URL: url, Headers: headers, MaxBody: maxResult,
		Expected: func(status int) bool { return d.HTTP.Status.Outcome(status) == module.Success }}
	switch body := body.(type) {
	case nil:
	case module.TextBody:
		q.Body, q.ContentType = string(body), "text/plain; charset=utf-8"
	case json.RawMessage:
		q.Body, q.ContentType = string(body), "application/json"
	default:
		q.Body, q.ContentType = value.JSON(body), "application/json"
	}
	res, err := a.World.Send(ctx, q, &action.Call{Mask: a.Recorder.Masks()})
	if errors.As(err, new(*action.BodyError)) {
		err = tooLarge(d)
	}
	return res, err
}

// limited keeps what is written to it. Of more than limit bytes nothing is kept,
// and full is called.
type limited struct {
	b     []byte
	limit int
	full  func()
	over  bool
}

func (l *limited) Write(b []byte) (int, error) {
	switch {
	case l.over:
	case len(l.b)+len(b) > l.limit:
		l.b, l.over = nil, true
		l.full()
	default:
		l.b = append(l.b, b...)
	}
	return len(b), nil
}
