package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// Settings are the recorded part of Options.
type Settings struct {
	Dir         string            `json:"dir"`
	Args        []string          `json:"args,omitempty"`
	Files       []string          `json:"files,omitempty"`
	Params      map[string]string `json:"params,omitempty"`
	ParamFile   value.Object      `json:"param_file,omitempty"`
	Profile     string            `json:"profile,omitempty"`
	MaxParallel int               `json:"max_parallel,omitempty"`
	Canary      int               `json:"canary,omitempty"` // items that run alone first, whatever the file says
	// Processors is how many there are where a run began of which a map or a foreach begins
	// with as many at once.
	Processors       int      `json:"processors,omitempty"`
	MaxIterations    int      `json:"max_iterations,omitempty"`
	All              bool     `json:"all,omitempty"` // items run whatever is unchanged
	FailFast         bool     `json:"fail_fast,omitempty"`
	Isolation        string   `json:"isolation,omitempty"`
	Yes              bool     `json:"yes,omitempty"`
	AllowRedBase     bool     `json:"allow_red_base,omitempty"` // items need not pass what fails on their base
	AllowFailedItems bool     `json:"allow_failed_items,omitempty"`
	FailOn           []string `json:"fail_on,omitempty"` // of event.Kinds
	SkipPermissions  bool     `json:"skip_permissions,omitempty"`
	Version          string   `json:"version,omitempty"`
	// Batch is how `bide batch` shows what it runs, for whoever continues with it; the
	// engine does not read it.
	Batch json.RawMessage `json:"batch,omitempty"`
	// Inputs and Manifest are those of a pipeline.
	Inputs   value.Object `json:"inputs,omitempty"`
	Manifest string       `json:"manifest,omitempty"`
	// Hidden says that secrets are in the texts of the run, which are recorded
	// without them: a resume reads the files.
	Hidden bool `json:"hidden,omitempty"`
	// Withheld are the parameters that are secrets: their values are not recorded,
	// and a resume is given them anew.
	Withheld []string `json:"withheld,omitempty"`
}

// given are the values that the run was started with, as JSON; nil where there are none.
func (s Settings) given() (json.RawMessage, error) {
	all := map[string]any(maps.Clone(s.ParamFile))
	for name, v := range s.Params {
		value.Put(&all, name, any(v))
	}
	for name, v := range s.Inputs {
		value.Put(&all, name, v)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// recorded gives the settings as they are recorded: without the values of
// parameters that are secrets.
func (s Settings) recorded(f *workflow.File) Settings {
	s.Withheld = nil
	for _, name := range workflow.SecretParams(f) {
		_, given := s.Params[name]
		_, inFile := s.ParamFile[name]
		if !given && !inFile {
			continue
		}
		if s.Withheld == nil {
			s.Params, s.ParamFile = maps.Clone(s.Params), maps.Clone(s.ParamFile)
		}
		delete(s.Params, name)
		delete(s.ParamFile, name)
		s.Withheld = append(s.Withheld, name)
	}
	return s
}

// withhold gives recorded settings the parameters that are not recorded, out of
// those that are given now. The error is a *ParamsError with all that is wrong.
func (s *Settings) withhold(run string, given map[string]string) error {
	wrong := &ParamsError{Run: run}
	for _, name := range s.Withheld {
		if v, ok := given[name]; ok {
			value.Put(&s.Params, name, v)
		} else {
			wrong.Missing = append(wrong.Missing, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		_, asValue := s.Params[name]
		_, fromFile := s.ParamFile[name]
		switch {
		case slices.Contains(s.Withheld, name):
		case asValue || fromFile:
			wrong.Recorded = append(wrong.Recorded, name)
		default:
			wrong.Unknown = append(wrong.Unknown, name)
		}
	}
	if len(wrong.Missing)+len(wrong.Recorded)+len(wrong.Unknown) > 0 {
		return wrong
	}
	return nil
}

// ParamsError says what is wrong with the parameters that were given to continue a run.
type ParamsError struct {
	Run      string
	Missing  []string // secrets, whose values are not recorded and were not given again
	Recorded []string // no secrets: the run has their values
	Unknown  []string // the run was started without them
}

func (e *ParamsError) Error() string {
	var parts []string
	if len(e.Missing) > 0 {
		parts = append(parts, fmt.Sprintf("run %s was given %s, which its file keeps secret, so that the value is not recorded: give it again, with --param %s=…",
			e.Run, strings.Join(e.Missing, ", "), strings.Join(e.Missing, "=… --param ")))
	}
	if len(e.Unknown) > 0 {
		parts = append(parts, fmt.Sprintf("run %s was started without a parameter %s: --param is for parameters that the file keeps secret; other data for a dead letter stands in the file that --data names", e.Run, strings.Join(e.Unknown, ", ")))
	}
	if len(e.Recorded) > 0 {
		parts = append(parts, fmt.Sprintf("run %s continues with its parameter %s as it was recorded: --param is for parameters that the file keeps secret", e.Run, strings.Join(e.Recorded, ", ")))
	}
	return strings.Join(parts, "\n")
}
