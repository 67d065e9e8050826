package classify

import "net"

// Errors are the verdict as errors of a tree, by which matchers that go by
// structure know it: a network error, and one with an HTTP status.
func (v Verdict) Errors() []error {
	var list []error
	if v.Network {
		list = append(list, net.UnknownNetworkError("network"))
	}
	if v.Status != 0 {
		list = append(list, status(v.Status))
	}
	return list
}

// status is an error that knows an HTTP status. Its text is never read: that of
// the command comes first.
type status int

func (status) Error() string     { return "" }
func (s status) HTTPStatus() int { return int(s) }
