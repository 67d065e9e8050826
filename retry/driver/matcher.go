package driver

// Matcher reports whether an error is of a kind. It must be safe for
// concurrent use.
type Matcher func(error) bool

// named are the matchers that have a name in workflow files, in the order of
// their list.
var named = [...]struct {
	name  string
	match Matcher
}{
	{"network", isNetwork},
	{"timeout", isTimeout},
	{"server_error", isServerError},
	{"rate_limit", isRateLimited},
	{"circuit_open", isRefusal},
}

// MatcherByName returns the matcher that is called network, timeout,
// server_error, rate_limit or circuit_open.
func MatcherByName(name string) (Matcher, bool) {
	for i := range named {
		if named[i].name == name {
			return named[i].match, true
		}
	}
	return nil, false
}

// MatcherNames returns the names that [MatcherByName] knows.
func MatcherNames() []string {
	names := make([]string, len(named))
	for i := range named {
		names[i] = named[i].name
	}
	return names
}
