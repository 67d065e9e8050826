package guardhttp

import "net/http"

// elsewhere returns a round tripper that does the same over connections of its own,
// or the same one if it is not known how.
func elsewhere(base http.RoundTripper) http.RoundTripper {
	switch b := base.(type) {
	case *http.Transport:
		return b.Clone()
	case *until:
		return &until{base: elsewhere(b.base), ok: b.ok}
	case *transport:
		return &transport{base: elsewhere(b.base), guard: b.guard}
	case *deadlines:
		return &deadlines{base: elsewhere(b.base), answers: b.answers}
	}
	return base
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() { closeIdle(t.base) }

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (h *hedged) CloseIdleConnections() {
	closeIdle(h.bases[0])
	closeIdle(h.bases[1])
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (u *until) CloseIdleConnections() { closeIdle(u.base) }

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (d *deadlines) CloseIdleConnections() { closeIdle(d.base) }

func closeIdle(base http.RoundTripper) {
	if b, ok := base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}
