package step

import (
	"cmp"
	"strconv"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// Tried is what an attempt knows of the ones before it. Commands read it in
// their environment: BIDE_ATTEMPT, and from the second attempt on BIDE_LAST_EXIT
// and BIDE_LAST_ERROR.
type Tried struct {
	// Number is that of the attempt at the step, from 1; 0 where no step around
	// has one.
	Number int `json:"number,omitempty"`
	// Before is how many attempts were made at what is around the step: the work
	// item, a step that contains it.
	Before int `json:"before,omitempty"`
	// Session is that of the agent in the attempt before this one; "" for none.
	Session string `json:"session,omitempty"`
	// Summary is what it said last, and Full says that its session is too long to be
	// continued.
	Summary string `json:"summary,omitempty"`
	Full    bool   `json:"full,omitempty"`
}

// lastErrors bounds what of a failure's message is in the environment.
const lastErrors = 8 << 10

// former is what an attempt knows of the one before it.
type former struct {
	Err              error // nil: it has not failed, or there is none
	Session, Summary string
	Full             bool
}

func formerOf(o *Outcome) former {
	if o == nil {
		return former{}
	}
	return former{o.Err, o.Result.Session, o.Result.Summary, o.Result.Full}
}

// attempt has the place of a step be that of attempt n at it, after one that ended as last
// says.
func (p *Place) attempt(m *mask.Masker, n int, last former) {
	p.Tried = Tried{Number: n, Before: p.Tried.Before, Session: last.Session, Summary: last.Summary, Full: last.Full}
	if last.Err == nil {
		return // what is around has said it all
	}
	f := failure.From(Cause(last.Err))
	p.Env = p.Env.With(TriedEnv(m, p.Tried.Before+n, f)...)
	p.Tried.Before += n - 1
}

// After is the place of attempt n at a call of a pipeline, after one that failed; nil: there
// was none.
func (x *Executor) After(p Place, n int, last error) Place {
	p.attempt(x.Values.Mask(), n, former{Err: last})
	return p
}

// handsOver reports whether an attempt of an agent takes over where the one before it
// stopped: it continues its session, or begins again with what that said last.
func (x *Executor) handsOver(a *workflow.Claude) bool {
	cfg := x.AgentConfigs[agentName(a)]
	return a.ContinueSession || cfg != nil && len(cfg.FirstOf) > 0
}

// summed has a result carry what is said of the attempts so far: what this one said last,
// else what was said before it.
func (x *Executor) summed(res *action.Result, before string) {
	res.Summary = failure.Plain(x.text(cmp.Or(res.Summary, before)).Ends(lastErrors))
}

// TriedEnv is the environment of an attempt after one that failed: names and
// values in turn. m hides what is in its message.
func TriedEnv(m *mask.Masker, number int, f *failure.Failure) []string {
	exit := ""
	if f.Exit != 0 {
		exit = strconv.Itoa(f.Exit)
	}
	message := failure.Plain(m.Text(f.Message).Ends(lastErrors))
	return []string{"BIDE_ATTEMPT", strconv.Itoa(number), "BIDE_LAST_EXIT", exit, "BIDE_LAST_ERROR", message}
}
