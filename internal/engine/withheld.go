package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// recorded gives the settings as they are recorded: without the values of
// parameters that are secrets.
func (opt *Options) recorded() Settings {
	s := opt.Settings
	s.Withheld = nil
	for _, name := range workflow.SecretParams(opt.File) {
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
// those that are given now.
func (s *Settings) withhold(run string, given map[string]string) error {
	var missing []string
	for _, name := range s.Withheld {
		v, ok := given[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		value.Put(&s.Params, name, v)
	}
	if len(missing) > 0 {
		return &WithheldError{run, missing}
	}
	for name := range given {
		if !slices.Contains(s.Withheld, name) {
			return &action.InputError{Err: fmt.Errorf("run %s continues with its parameter %s as it was recorded: --param is for parameters that the file keeps secret", run, name)}
		}
	}
	return nil
}

// WithheldError says that parameters of a run are secrets, whose values are not
// recorded and were not given again.
type WithheldError struct {
	Run   string
	Names []string
}

func (e *WithheldError) Error() string {
	return fmt.Sprintf("run %s was given %s, which its file keeps secret, so that the value is not recorded: give it again, with --param %s=…",
		e.Run, strings.Join(e.Names, ", "), strings.Join(e.Names, "=… --param "))
}
