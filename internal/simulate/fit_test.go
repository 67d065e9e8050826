package simulate

// fit is what attempts give that have nothing in common.
func fit(list []*recorded) *Target {
	e := &evidence{list: list}
	for i := range list {
		e.units = append(e.units, i)
	}
	e.prepare(false)
	return e.fit(nil, nil)
}
