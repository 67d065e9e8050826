package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/notyaml"
	"github.com/bide-dev/bide/internal/value"
	"go.yaml.in/yaml/v3"
)

// givenValues reads the NAME=VALUE texts of one flag, and the file that another flag names.
// once rejects a repeated name.
func givenValues(flag string, list []string, fileFlag, path string, once bool) (texts map[string]string, file map[string]any, err error) {
	texts = map[string]string{}
	var errs []error
	for _, text := range list {
		name, v, ok := strings.Cut(text, "=")
		switch _, twice := texts[name]; {
		case !ok || name == "":
			hint := ""
			if _, err := os.Stat(text); err == nil || filepath.Ext(text) == ".json" {
				hint = fmt.Sprintf("; a file of them is given as --%s %s", fileFlag, text)
			}
			errs = append(errs, fmt.Errorf("--%s %s: write it as NAME=VALUE%s", flag, text, hint))
		case twice && once:
			errs = append(errs, fmt.Errorf("--%s %s is given twice", flag, name))
		case !utf8.ValidString(v):
			errs = append(errs, fmt.Errorf("--%s %s: the value %q is no UTF-8, which the record of a run cannot have; write it in UTF-8, or give the path of a file that has it", flag, name, v))
		default:
			texts[name] = v
		}
	}
	if path != "" {
		if file, err = readValues(path); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", fileFlag, err))
		}
	}
	return texts, file, misused(errs...)
}

// readValues reads a JSON or YAML file that holds one object.
func readValues(path string) (map[string]any, error) {
	b, err := os.ReadFile(path)
	if err != nil && strings.HasPrefix(strings.TrimSpace(path), "{") {
		return nil, errors.New("it takes the name of a file, not the values: write them to one, or give each as NAME=VALUE")
	}
	if err != nil {
		return nil, err
	}
	var v any
	if v, err = value.Parse(b); err != nil {
		if yerr := yaml.Unmarshal(b, &v); yerr != nil {
			var why diag.List
			notyaml.Problem(&why, path, b, yerr)
			return nil, fmt.Errorf("it is neither JSON (%w) nor YAML: %v", err, why.Err())
		}
		v = value.Normal(v)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s holds a %s; it must hold an object", path, value.Kind(v))
	}
	return m, nil
}
