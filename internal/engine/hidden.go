package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// Secrets may stand in a workflow's own text. The texts that a run records are
// then without them, and a resume takes the values from the files as they are:
// like those that a provider gives, they are asked for again in each life.

// inPlace stands in a recorded text in the place of a secret. Unlike the mask of
// outputs it can be a value in YAML, so that what is recorded can be read.
const inPlace = "<secret>"

// literals masks the secrets that stand in the texts of a workflow.
func literals(f *workflow.File) *mask.Masker {
	m, _ := mask.New(workflow.Literals(f)) // those that are too short a run tells of
	return m
}

// hide gives a text as it is recorded.
func hide(m *mask.Masker, text []byte) []byte {
	if !m.Active() {
		return text
	}
	return []byte(m.Replace(string(text), inPlace))
}

// hiddenSources is sources of a run whose recorded texts are without secrets.
func hiddenSources(h journal.Header, opt Options) (func(path string) ([]byte, error), error) {
	read := func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; secrets stand in the texts of this run, which are therefore not recorded whole: put the file back where it was, or write secrets as ${env:NAME}", err)
		}
		return text, err
	}
	if _, err := read(h.Path); err != nil {
		return nil, err
	}
	if opt.Part == nil && !opt.Force {
		f, problems := workflow.Load(h.Path, workflow.Options{Params: opt.Params, ParamFile: opt.ParamFile, Profile: opt.Profile, ReadFile: read})
		if err := errOf(f, problems); err != nil {
			return nil, err // and what changed is not shown: its secrets are not known
		}
		if path, changed := changedFile(h, literals(f)); changed != "" {
			return nil, &ChangedError{Path: path, Diff: changed, AsRecorded: opt.AsRecorded}
		}
	}
	return read, nil
}
