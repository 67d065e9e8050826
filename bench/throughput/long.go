package main
func (b *bench) scale() ([]promise, error) { return nil, nil }
func (b *bench) filter() ([]promise, error) { return nil, nil }
func (b *bench) resume() ([]promise, error) { return nil, nil }
