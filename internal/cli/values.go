package cli

import (
	"fmt"
	"os"

	"github.com/bide-dev/bide/internal/value"
	"go.yaml.in/yaml/v3"
)

// readValues reads a JSON or YAML file that holds one object.
func readValues(path string) (map[string]any, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var v any
	if v, err = value.Parse(b); err != nil {
		if yerr := yaml.Unmarshal(b, &v); yerr != nil {
			return nil, fmt.Errorf("%s is neither JSON (%w) nor YAML (%w)", path, err, yerr)
		}
		v = value.Normal(v)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s holds a %s; it must hold an object", path, value.Kind(v))
	}
	return m, nil
}
