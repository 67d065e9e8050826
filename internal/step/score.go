package step

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

// score is what a validation found.
type score struct {
	percent float64
	read    bool // there is one
	vars    map[string]any
	cut     error // what ended the check, which has found nothing then
}

// unread is why there is no score.
func (s score) unread() error {
	if s.read {
		return nil
	}
	if s.cut != nil {
		return fmt.Errorf("the check did not run to its end: %w", s.cut)
	}
	return errors.New("the result has no score: it must be a JSON object such as {\"score\": 85}, or have a line such as `score: 85`; without threshold: the exit status of a command is the result")
}

// parseScore reads a validation's result. Both documented shapes are
// understood, {completion_percentage, status, implemented, missing, gaps} and
// {complete, score, gaps}, and texts such as "85%" and "Score: 85/100". Any
// other text is complete where the command ended well, unless there must be a
// score.
func parseScore(text string, ok, must bool) (s score, err error) {
	s.vars = map[string]any{"missing": []any{}, "implemented": []any{}, "gaps": map[string]any{}}
	status := ""
	v, perr := value.Parse([]byte(text))
	m, isMap := v.(map[string]any)
	if perr == nil && isMap {
		for _, k := range []string{"missing", "implemented", "gaps"} {
			if x, has := m[k]; has {
				s.vars[k] = x
			}
		}
		s.percent, s.read, err = percentOf(m)
		status, _ = m["status"].(string)
	} else if ok || scoreLine().MatchString(text) {
		s.percent, s.read, err = percentIn(text)
	}
	if err != nil {
		return s, err
	}
	if !s.read && (!must || text == "") {
		s.read = true // the exit status is the result
		if ok {
			s.percent = 100
		}
	}
	if status == "" {
		status = "incomplete"
		if s.percent >= 100 {
			status = "complete"
		}
	}
	missing, _ := s.vars["missing"].([]any)
	s.vars["completion"], s.vars["completion_percentage"], s.vars["score"] = s.percent, s.percent, s.percent
	s.vars["status"], s.vars["missing_count"] = status, int64(len(missing))
	return s, nil
}

// meansScore reports whether a text is meant to have a score, whether or not that can be
// read: it is a JSON object, or has a line such as "score: n/a".
func meansScore(text string) bool {
	v, err := value.Parse([]byte(text))
	_, isMap := v.(map[string]any)
	return err == nil && isMap || scoreName().MatchString(text)
}

// percentOf reads the score of a JSON object; read is false where it has none.
func percentOf(m map[string]any) (percent float64, read bool, err error) {
	for _, k := range []string{"completion_percentage", "completion", "score", "percentage"} {
		if x, has := m[k]; has {
			f, is := value.Float(x)
			if !is || f < 0 || f > 100 {
				return 0, false, fmt.Errorf("the validation's %s is %s; it must be a number from 0 to 100", k, value.JSON(x))
			}
			if k == "score" && f <= 1 && f != 0 && m["complete"] == nil {
				f *= 100
			}
			return f, true, nil
		}
	}
	switch done, has := m["complete"]; {
	case has && value.Truthy(done):
		return 100, true, nil
	case has:
		return 0, true, nil
	}
	switch m["status"] {
	case "complete", "skipped":
		return 100, true, nil
	case "incomplete", "failed":
		return 0, true, nil
	}
	return 0, false, nil
}

// number is a number, a percentage or a part of a whole. One below zero is no score, and is
// not read as one above.
const number = `(-?\d+(?:\.\d+)?)\s*(?:%|(?:/|out of)\s*(\d+(?:\.\d+)?))?`

var (
	// scoreLine finds a score in a text, loneScore one that is all of it. scoreName finds the
	// name of one, before whatever its value is.
	scoreName = pattern.Lazy(`(?im)\bscore\b["']?[ \t]*[:=]`)
	scoreLine = pattern.Lazy(`(?im)^.*\bscore\b\W*?[:=]?\W*?` + number)
	loneScore = pattern.Lazy(`^\s*` + number + `\s*$`)
)

// percentIn reads the score of a text, its last one.
func percentIn(text string) (percent float64, read bool, err error) {
	found := loneScore().FindStringSubmatch(text)
	if all := scoreLine().FindAllStringSubmatch(text, -1); found == nil && len(all) > 0 {
		found = all[len(all)-1]
	}
	if found == nil {
		return 0, false, nil
	}
	percent, read = value.Float(found[1])
	if found[2] != "" {
		whole, _ := value.Float(found[2])
		percent *= 100 / whole
	}
	if !(percent >= 0 && percent <= 100) {
		return 0, false, fmt.Errorf("the validation's score is %q; it must be a number from 0 to 100", strings.TrimSpace(found[0]))
	}
	return percent, read, nil
}
