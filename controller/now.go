package controller

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// Now returns when the attempt that ctx belongs to began, or the current time if it belongs to none. A reconciler whose
// decisions depend on the time asks Now: a replay gives it the time that the recorded attempt had. time.Now depends on how
// busy the machine is, so that a replay may decide otherwise.
func Now(ctx context.Context) time.Time {
	if _, started, within := operators.AttemptOf(ctx); within {
		return started
	}
	return time.Now()
}
