package hero

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1alpha0"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1beta7"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
)

// keptAnnotation has what an object of an old version has no field for: its v1 specification as JSON, without the
// fields that the old version has.
const keptAnnotation = "stable.bellerophon.io/v1-spec"

// AddWebhooks adds the conversions between the versions of the kind. Version v1 is the hub.
func AddWebhooks(server *webhook.Server, _ *controller.Client, _ ...webhook.Option) error {
	if err := webhook.Convert(server, fromAlpha, toAlpha); err != nil {
		return err
	}
	return webhook.Convert(server, fromBeta, toBeta)
}

// fromAlpha converts a hero of v1alpha0. Its metadata is in place already.
func fromAlpha(_ context.Context, from *v1alpha0.Bellerophon, to *v1.Bellerophon) error {
	if err := unkeep(to); err != nil {
		return err
	}
	to.Spec.WingedHorseName, to.Spec.Image, to.Spec.Replicas = from.Spec.WingedHorseName, from.Spec.Image, from.Spec.Replicas
	to.Status = from.Status
	return nil
}

// toAlpha converts a hero to v1alpha0.
func toAlpha(_ context.Context, from *v1.Bellerophon, to *v1alpha0.Bellerophon) error {
	to.Spec = v1alpha0.BellerophonSpec{WingedHorseName: from.Spec.WingedHorseName, Image: from.Spec.Image, Replicas: from.Spec.Replicas}
	to.Status = from.Status
	kept := from.Spec
	kept.WingedHorseName, kept.Image, kept.Replicas = "", "", nil
	return annotate(to.Annotations, kept)
}

// fromBeta converts a hero of v1beta7.
func fromBeta(_ context.Context, from *v1beta7.Bellerophon, to *v1.Bellerophon) error {
	if err := unkeep(to); err != nil {
		return err
	}
	to.Spec.WingedHorseName, to.Spec.Image, to.Spec.Replicas = from.Spec.WingedHorseName, from.Spec.Image, from.Spec.Replicas
	to.Spec.Weapons = nil
	if from.Weapons != nil {
		to.Spec.Weapons = &v1.Weapons{AutomaticRifle: from.Weapons.AutomaticRifle, Image: from.Weapons.Image, Explosive: from.Weapons.Explosive}
	}
	to.Status = from.Status
	return nil
}

// toBeta converts a hero to v1beta7.
func toBeta(_ context.Context, from *v1.Bellerophon, to *v1beta7.Bellerophon) error {
	to.Spec = v1beta7.BellerophonSpec{WingedHorseName: from.Spec.WingedHorseName, Image: from.Spec.Image, Replicas: from.Spec.Replicas}
	if from.Spec.Weapons != nil {
		to.Weapons = &v1beta7.Weapons{AutomaticRifle: from.Spec.Weapons.AutomaticRifle, Image: from.Spec.Weapons.Image, Explosive: from.Spec.Weapons.Explosive}
	}
	to.Status = from.Status
	kept := from.Spec
	kept.WingedHorseName, kept.Image, kept.Replicas, kept.Weapons = "", "", nil, nil
	return annotate(to.Annotations, kept)
}

// annotate writes a part of a specification to an annotation, unless the part is empty.
func annotate(annotations map[string]string, kept v1.BellerophonSpec) error {
	content, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keeping the fields of v1: %w", err)
	}
	if string(content) != "{}" {
		annotations[keptAnnotation] = string(content)
	}
	return nil
}

// unkeep reads the specification of the annotation, and removes the annotation.
func unkeep(to *v1.Bellerophon) error {
	content, is := to.Annotations[keptAnnotation]
	if !is {
		return nil
	}
	if err := json.Unmarshal([]byte(content), &to.Spec); err != nil {
		return fmt.Errorf("reading the annotation %s: %w; remove the annotation to set its fields to their defaults", keptAnnotation, err)
	}
	delete(to.Annotations, keptAnnotation)
	return nil
}
