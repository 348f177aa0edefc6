package main

import (
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pegasus() *v1.BellerophonSimple {
	return &v1.BellerophonSimple{
		ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Generation: 2},
		Spec:       v1.BellerophonSimpleSpec{WingedHorseName: "Pegasus", Image: "registry.example/server:1", Replicas: new(int32(2))},
	}
}

func TestServersThatAreAsTheyShouldBeAreNotChanged(t *testing.T) {
	servers := &appsv1.StatefulSet{}
	setServers(pegasus(), servers)
	servers.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	again := servers.DeepCopy()
	setServers(pegasus(), again)
	if !equality.Semantic.DeepEqual(servers, again) {
		t.Errorf("set again, the StatefulSet is\n%+v\nwant\n%+v", again.Spec, servers.Spec)
	}
}

func TestWhatOthersAddToTheServersStays(t *testing.T) {
	servers := &appsv1.StatefulSet{}
	setServers(pegasus(), servers)
	pods := &servers.Spec.Template.Spec
	pods.Containers = append([]corev1.Container{{Name: "theirs"}}, pods.Containers...)
	pods.Volumes = append([]corev1.Volume{{Name: "theirs"}}, pods.Volumes...)
	servers.Spec.Template.Labels["theirs"] = "stays"
	hero := pegasus()
	hero.Spec.Image = "registry.example/server:2"
	setServers(hero, servers)
	if len(pods.Containers) != 2 || pods.Containers[0].Name != "theirs" || pods.Containers[1].Image != hero.Spec.Image {
		t.Errorf("the containers are %+v", pods.Containers)
	}
	if len(pods.Volumes) != 3 || pods.Volumes[0].Name != "theirs" || servers.Spec.Template.Labels["theirs"] != "stays" {
		t.Errorf("the volumes are %+v, the labels %v", pods.Volumes, servers.Spec.Template.Labels)
	}
}

func TestAPortThatHasTheNameOrTheNumberOfOursIsOurs(t *testing.T) {
	want := corev1.ServicePort{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}
	theirs := corev1.ServicePort{Name: "theirs", Port: 9090, Protocol: corev1.ProtocolTCP}
	for name, changed := range map[string]corev1.ServicePort{
		"another number": {Name: "http", Port: 8081, Protocol: corev1.ProtocolTCP},
		"another name":   {Name: "web", Port: 8080, Protocol: corev1.ProtocolTCP},
	} {
		service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{theirs, changed}}}
		setService(pegasus(), service)
		if ports := service.Spec.Ports; len(ports) != 2 || ports[0] != theirs || ports[1] != want {
			t.Errorf("%s: the ports are %+v", name, ports)
		}
	}
}
