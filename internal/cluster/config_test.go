package cluster

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/policy"
)

// fill gives every field of a value something, but those that JSON leaves out, whose
// names it returns.
func fill(t *testing.T, v reflect.Value, path string, n *int64) (out []string) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(t, v.Elem(), path, n)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := strings.TrimPrefix(path+"."+f.Name, ".")
			if f.Tag.Get("json") == "-" {
				out = append(out, name)
				continue
			}
			out = append(out, fill(t, v.Field(i), name, n)...)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(path)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8:
		v.SetUint(1) // a name of which there are several
	case reflect.Float64:
		v.SetFloat(float64(*n) / 128)
	default:
		t.Fatalf("%s is a %v", path, v.Kind())
	}
	return out
}

// TestConfigIsSent: what a coordinator is sent of a map has all that the map has,
// whatever is added to it.
func TestConfigIsSent(t *testing.T) {
	var want, got Config
	n := int64(0)
	left := fill(t, reflect.ValueOf(&want).Elem(), "", &n)
	// The retries of items are decided by lanes, same_error is refused on many
	// machines, and what a breaker does when it changes and what its time is are ours.
	if known := []string{"Config.Retry", "Config.Breaker.Name", "Config.Breaker.FailureIf", "Config.Breaker.IgnoreIf", "Config.Breaker.OpenFor", "Config.Breaker.Now", "Config.Breaker.Store",
		"Config.Breaker.Key", "Config.Breaker.OnChange", "Config.SameError"}; !slices.Equal(left, known) {
		t.Errorf("not sent are %q, want %q", left, known)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nis read as %+v, %v\nwant %+v", text, got, err, want)
	}
	p := got.policy()
	if p.Retry == nil || p.MaxWaiting != maxWaiting {
		t.Errorf("the policy is %+v", p)
	}
	p.Retry, p.MaxWaiting = nil, want.MaxWaiting
	if !reflect.DeepEqual(p, want.Config) {
		t.Errorf("the policy is %+v, want %+v", p, want.Config)
	}
	if c := (&Config{Config: policy.Config{MaxParallel: 3}}).policy(); c.Retry != nil {
		t.Error("items that are not tried again have a retry policy")
	}
}
