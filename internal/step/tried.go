package step

import (
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mask"
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
}

// lastErrors bounds what of a failure's message stands in the environment.
const lastErrors = 8 << 10

// attempt is the place of attempt n at a step, after one that ended as last says.
func (p Place) attempt(m *mask.Masker, n int, last Outcome) Place {
	p.Tried = Tried{Number: n, Before: p.Tried.Before, Session: last.Result.Session}
	if last.Err == nil {
		return p // what is around has said it all
	}
	f := failure.From(Cause(last.Err))
	p = p.With(TriedEnv(m, p.Tried.Before+n, f)...)
	p.Tried.Before += n - 1
	return p
}

// TriedEnv is the environment of an attempt after one that failed: names and
// values in turn. m hides what stands in its message.
func TriedEnv(m *mask.Masker, number int, f *failure.Failure) []string {
	exit := ""
	if f.Exit != 0 {
		exit = strconv.Itoa(f.Exit)
	}
	message := strings.ReplaceAll(m.Text(f.Message).Ends(lastErrors), "\x00", "") // which would end the environment
	return []string{"BIDE_ATTEMPT", strconv.Itoa(number), "BIDE_LAST_EXIT", exit, "BIDE_LAST_ERROR", message}
}
