"""The bucket of tests on any server that speaks S3."""

from __future__ import annotations

from typing import Any

import boto3

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "AKTEST", "hidden"


def create_bucket(endpoint: str) -> Any:
    """Create the bucket, and return the client that did."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    return client
