//go:build !linux

package footprint

func releasePages() {}

func resident() uint64 { return 0 }
