package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// actionLog is the file in a run's directory that takes what the last action's
// process says; patience is how long a page waits for one that ends at once.
const (
	actionLog = "action.log"
	patience  = 1500 * time.Millisecond
	maxEdit   = 4 << 20 // bytes of an item that is edited
)

// asked is what was asked for last of a run, in this server's time.
type asked struct {
	what   string
	at     time.Time
	ended  bool
	failed bool
	said   string
}

// actions are those that were asked for, by run.
type actions struct {
	mu   sync.Mutex
	last map[string]*asked
}

// act does what a button asks for: it starts a process of this program with the
// arguments of one of the actions below, which continues when this server ends.
// What a form says becomes an argument of its own, never a part of one; no
// shell reads it.
func (p *pages) act(w http.ResponseWriter, r *http.Request) {
	p.problem(w, r, p.tryAct(w, r))
}

func (p *pages) tryAct(w http.ResponseWriter, r *http.Request) error {
	if p.opt.ReadOnly {
		return &status{http.StatusForbidden, "This dashboard changes nothing.", "It was started with --read-only."}
	}
	id, err := p.opt.Store.Find(r.PathValue("run"))
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, 3*(maxEdit+maxEdit/8)) // each byte may be three in a form
	if err := r.ParseForm(); err != nil {
		return &status{http.StatusBadRequest, "The form cannot be read.", "It may be too large."}
	}
	if r.PathValue("action") == "edit" {
		return p.runs.with(id, func(run *run) error { return p.review(w, r, run) })
	}
	var args []string
	var input []byte
	err = p.runs.with(id, func(run *run) error {
		args, input, err = p.arguments(r, run)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.start(id, r.PathValue("action"), args, input); err != nil {
		return err
	}
	back := "/runs/" + id
	if tab := r.PostForm.Get("back"); tab == "dlq" || tab == "map" {
		back += "/" + tab
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
	return nil
}

// arguments are those of the process that carries an action out, and what it
// reads.
func (p *pages) arguments(r *http.Request, run *run) (args []string, input []byte, err error) {
	form, id := r.PostForm, run.id
	switch r.PathValue("action") {
	case "resume":
		return []string{"resume", id, "--progress", "none"}, nil, nil
	case "merge":
		return []string{"worktree", "merge", id}, nil, nil
	case "stop":
		return []string{"stop", id}, nil, nil
	case "kill":
		return []string{"stop", id, "--now"}, nil, nil
	case journal.Pause, journal.Continue, journal.RetryNow:
		return []string{"control", id, r.PathValue("action")}, nil, nil
	case journal.Parallel:
		n, err := strconv.Atoi(form.Get("parallel"))
		if err != nil || n < 1 || n > 1_000_000 {
			return nil, nil, &status{http.StatusBadRequest, "Parallel is a whole number from 1 to 1 000 000.", "It is how many items run at once."}
		}
		return []string{"control", id, "parallel", strconv.Itoa(n)}, nil, nil
	case "retry":
		args = []string{"dlq", "retry", id, "--progress", "none"}
		if _, err := os.Stat(filepath.Join(p.opt.Store.RunDir(id), journal.Elsewhere)); err == nil {
			args = append(args, "--as-recorded") // other machines continue with their copy of the file
		}
		if form.Has("index") {
			item, err := named(r, run)
			if err != nil {
				return nil, nil, err
			}
			args = append(args, "--item="+item)
			if data := form.Get("data"); data != "" {
				if len(data) > maxEdit {
					return nil, nil, tooLarge(id, item)
				}
				if wrong := validJSON(data); wrong != "" {
					return nil, nil, &status{http.StatusBadRequest, wrong, "Go back and mend it; nothing was changed."}
				}
				args, input = append(args, "--data=-"), []byte(data)
			}
		}
		filter := form.Get("filter")
		if g := form.Get("group"); g != "" {
			if strings.Trim(g, "0123456789abcdef") != "" {
				return nil, nil, &status{http.StatusBadRequest, "There is no such group of dead letters.", "The list of dead letters shows those that there are."}
			}
			filter = fmt.Sprintf("group == %q", g)
		}
		if filter != "" {
			if _, err := expr.Parse(filter); err != nil {
				return nil, nil, &status{http.StatusBadRequest, "The filter cannot be read: " + err.Error(), "Write it as in: class == \"timeout\" && attempts > 2"}
			}
			args = append(args, "--filter="+filter)
		}
		return args, input, nil
	}
	return nil, nil, &status{http.StatusNotFound, "There is no such action.", "The buttons of the pages show those that there are."}
}

// named is the id of the item that a form is about.
func named(r *http.Request, run *run) (string, error) {
	index, err := strconv.Atoi(r.PostForm.Get("index"))
	if err != nil {
		return "", &status{http.StatusBadRequest, "The form names no item.", "Press the button on the item's own page."}
	}
	it, err := run.r.Item(r.Context(), index)
	if err != nil && !errors.Is(err, journal.ErrNoItem) {
		return "", err
	}
	return itemID(it, index), nil
}

// start starts the process of an action, and waits a moment for its end: most
// of what can be wrong is told at once.
func (p *pages) start(id, what string, args []string, input []byte) error {
	out, err := os.OpenFile(filepath.Join(p.opt.Store.RunDir(id), actionLog), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("the action cannot be started: %w", err)
	}
	cmd := exec.Command(p.opt.Program[0], append(p.opt.Program[1:len(p.opt.Program):len(p.opt.Program)], args...)...)
	cmd.Env = append(os.Environ(), "BIDE_HOME="+p.opt.Store.Dir)
	cmd.Stdout, cmd.Stderr = out, out
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's interrupt is not for it
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("the action cannot be started: %w", err), out.Close())
	}
	a := &asked{what: what, at: time.Now()}
	p.actions.mu.Lock()
	value.Put(&p.actions.last, id, a)
	p.actions.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the process, or with this program
		defer close(done)
		err := cmd.Wait()
		said := lastLines(out)
		_ = out.Close() // another process wrote it
		p.actions.mu.Lock()
		defer p.actions.mu.Unlock()
		// A run that fails is no failed action: its own page tells of it.
		var exit *exec.ExitError
		a.ended, a.failed, a.said = true, err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 130 && time.Since(a.at) < patience), said
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
	return nil
}

// lastLines is the end of what a process said.
func lastLines(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(info.Size(), 2000))
	n, err := f.ReadAt(b, info.Size()-int64(len(b)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b[:n]), "�"))
}

// lastAction says what was asked for last of a run and how that went; "" for
// nothing in the last minutes.
func (p *pages) lastAction(run *run) (said string, failed bool) {
	p.actions.mu.Lock()
	defer p.actions.mu.Unlock()
	a := p.actions.last[run.id]
	if a == nil || time.Since(a.at) > 10*time.Minute {
		return "", false
	}
	switch {
	case a.failed:
		return "The action “" + a.what + "” failed: " + a.said, true
	case a.ended:
		return "", false
	}
	return "The action “" + a.what + "” started " + timeline.Short(time.Since(a.at)) + " ago and is still running.", false
}
