// Package steps shows the start of a local cluster on a screen. It is a package of its own, so that a
// program with a screen need not have the code of the local cluster.
package steps

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// On shows the steps of a cluster's start. On a terminal it draws a live line with a bar. Elsewhere it
// prints a line for each step and for each tenth of a step.
func On(s *screen.Screen) func(localcluster.Progress) {
	var phase string
	var tenth int
	var started time.Time
	return func(p localcluster.Progress) {
		isNew := p.Phase != phase
		if isNew {
			phase, tenth, started = p.Phase, 0, time.Now()
		}
		elapsed := time.Since(started).Round(time.Second)
		if s.IsLive() {
			s.Live(fmt.Sprintf("%s %s %s %s", p.Phase, bar(p), elapsed, s.Paint(screen.Dim, p.Detail)))
			return
		}
		switch now := tenths(p); {
		case isNew:
			s.Println(p.Phase)
		case now > tenth:
			tenth = now
			s.Println(fmt.Sprintf("%s: %d of %d, %v", p.Phase, p.Done, p.Total, elapsed))
		}
	}
}

func tenths(p localcluster.Progress) int {
	if p.Total <= 0 {
		return 0
	}
	return min(p.Done, p.Total) * 10 / p.Total
}

func bar(p localcluster.Progress) string {
	if p.Total <= 0 {
		return ""
	}
	full := tenths(p) * 2
	return fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("█", full), strings.Repeat("░", 20-full), p.Done, p.Total)
}
