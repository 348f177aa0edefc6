package io.bellerophon.bench.tutorial;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;

/** What is wanted. The API server fills in defaults, so no field is ever missing. */
@JsonIgnoreProperties(ignoreUnknown = true)
public record SimpleSpec(@JsonProperty("winged_horse_name") String wingedHorseName, String image, int replicas) {}
