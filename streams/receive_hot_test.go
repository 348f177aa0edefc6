package streams_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/streams"
)

func TestMapOnReceiveAppliesToWhatASubjectAndAShareSend(t *testing.T) {
	double := func(batch []int) ([]string, error) {
		texts := make([]string, len(batch))
		for i, value := range batch {
			texts[i] = strconv.Itoa(2 * value)
		}
		return texts, nil
	}
	for name, of := range map[string]func(subject *streams.Subject[int]) streams.Stream[int]{
		"a subject": (*streams.Subject[int]).Stream,
		"a share": func(subject *streams.Subject[int]) streams.Stream[int] {
			return streams.Share(subject.Stream(), streams.ShareOptions[int, struct{}]{})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			subject := streams.NewSubject[int](0)
			ctx, cancel := context.WithCancel(t.Context())
			items := streams.MapOnReceive(of(subject), double).Observe(ctx)
			synctest.Wait()
			subject.Send([]int{1, 2})
			got, err := streams.Values[string](<-items)
			if !slices.Equal(got, []string{"2", "4"}) || err != nil {
				t.Errorf("of %s: got %q, %v", name, got, err)
			}
			cancel()
			for range items {
			}
		})
	}
}
