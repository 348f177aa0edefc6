package conformance

import (
	"context"
	"fmt"
)

var changeChecks = []check{
	{"2.1", "A change of the image, the replicas or the name reaches the children", ofOperators, recorded(followsChanges)},
	{"2.2", "A change writes each affected child once, and nothing else", ofOperators, followsWithFewWrites},
	{"2.3", "A rapid series of changes ends in the last", ofOperators, recorded(followsTheLast)},
	{"2.4", "Changes while the process is down are applied after its start", ofOperators, makesUpForChanges},
}

// changes lists changes of a spec, with the number of writes to each affected child.
var changes = []struct {
	spec     string
	concerns map[string]int
}{
	{`{"image":"bellerophon-io/bellerophon-server:v2"}`, map[string]int{"statefulsets": 1}},
	{`{"replicas":4}`, map[string]int{"statefulsets": 1}},
	{`{"replicas":1}`, map[string]int{"statefulsets": 1}},
	{`{"winged_horse_name":"a horse, \"of\" course: ünïcode"}`, map[string]int{"configmaps": 1, "statefulsets": 1}},
	{`{"replicas":0}`, map[string]int{"statefulsets": 1}},
	{`{"replicas":2,"image":"bellerophon-io/bellerophon-server:v3","winged_horse_name":"tulpar"}`, map[string]int{"configmaps": 1, "statefulsets": 1}},
}

func followsChanges(ctx context.Context, t *trial) error {
	if _, err := t.finished(ctx, "pegasus", 2); err != nil {
		return err
	}
	for _, change := range changes {
		hero, err := t.change(ctx, "pegasus", change.spec)
		if err != nil {
			return err
		}
		if _, err := t.awaitAll(ctx, hero); err != nil {
			return fmt.Errorf("after %s: %w", change.spec, err)
		}
	}
	return nil
}

func followsWithFewWrites(ctx context.Context, t *trial) error {
	if _, err := t.settled(ctx, "pegasus", 2); err != nil {
		return err
	}
	for _, change := range changes {
		mark := t.proxy.mark()
		hero, err := t.change(ctx, "pegasus", change.spec)
		if err != nil {
			return err
		}
		if _, err := t.awaitAll(ctx, hero); err != nil {
			return fmt.Errorf("after %s: %w", change.spec, err)
		}
		if err := t.settle(ctx); err != nil {
			return err
		}
		writes, refused := t.accepted(mark)
		counted := counts(writes)
		for what, n := range counted {
			want := change.concerns[what]
			if what == "sheroes/status" {
				want = max(n, 1)
			}
			if n != want {
				return fmt.Errorf("after %s: %d writes of %s, want %d", change.spec, n, what, want)
			}
		}
		t.note("%d writes of the status after %s, and %d writes that were refused", counted["sheroes/status"], change.spec, refused)
	}
	return nil
}

func followsTheLast(ctx context.Context, t *trial) error {
	hero, err := t.create(ctx, t.hero("pegasus", 1))
	if err != nil {
		return err
	}
	for i := range 20 {
		if hero, err = t.change(ctx, "pegasus", fmt.Sprintf(`{"replicas":%d,"winged_horse_name":"horse %d"}`, 1+i%3, i)); err != nil {
			return err
		}
	}
	_, err = t.awaitAll(ctx, hero)
	return err
}

func makesUpForChanges(ctx context.Context, t *trial) error {
	heroes, err := t.createAll(ctx, 1, 1, 1)
	if err != nil {
		return err
	}
	for _, hero := range heroes {
		if _, err := t.awaitAll(ctx, hero); err != nil {
			return err
		}
	}
	if _, err := t.stop(); err != nil {
		return err
	}
	if heroes[0], err = t.change(ctx, "pegasus-0", `{"replicas":3,"winged_horse_name":"tulpar"}`); err != nil {
		return err
	}
	if err := t.drift(ctx, "pegasus-1", drifts[0]); err != nil {
		return err
	}
	created, err := t.create(ctx, t.hero("pegasus-3", 1))
	if err != nil {
		return err
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	for _, hero := range append(heroes, created) {
		if _, err := t.awaitAll(ctx, hero); err != nil {
			return err
		}
	}
	return nil
}
